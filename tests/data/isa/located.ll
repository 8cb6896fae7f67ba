; Debug information as DWARF 5 has it: checksums, a compile directory, two levels of inlining.
target triple = "amdgcn-amd-amdhsa"

define amdgpu_kernel void @located(ptr addrspace(1) %p, i32 %n) !dbg !10 {
entry:
  %a = mul i32 %n, 3, !dbg !20
  %b = add i32 %a, 5, !dbg !22
  %c = xor i32 %b, %n, !dbg !24
  store i32 %c, ptr addrspace(1) %p, !dbg !25
  ret void, !dbg !26
}

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!3, !4}
!0 = distinct !DICompileUnit(language: DW_LANG_C_plus_plus_14, file: !1, producer: "clang", isOptimized: true, runtimeVersion: 0, emissionKind: FullDebug)
!1 = !DIFile(filename: "kernel.hip", directory: "/src/app", checksumkind: CSK_MD5, checksum: "0123456789abcdef0123456789abcdef")
!2 = !DIFile(filename: "include/math.h", directory: "/src/app", checksumkind: CSK_MD5, checksum: "fedcba9876543210fedcba9876543210")
!3 = !{i32 2, !"Debug Info Version", i32 3}
!4 = !{i32 7, !"Dwarf Version", i32 5}
!5 = !DISubroutineType(types: !{null})
!10 = distinct !DISubprogram(name: "located", scope: !1, file: !1, line: 10, type: !5, scopeLine: 10, unit: !0, spFlags: DISPFlagDefinition)
!11 = distinct !DISubprogram(name: "scale", scope: !2, file: !2, line: 3, type: !5, scopeLine: 3, unit: !0, spFlags: DISPFlagDefinition)
!12 = distinct !DISubprogram(name: "shift", scope: !2, file: !2, line: 7, type: !5, scopeLine: 7, unit: !0, spFlags: DISPFlagDefinition)
!20 = !DILocation(line: 12, column: 7, scope: !10)
!21 = !DILocation(line: 13, column: 9, scope: !10)
!22 = !DILocation(line: 4, column: 3, scope: !11, inlinedAt: !21)
!23 = !DILocation(line: 5, column: 11, scope: !11, inlinedAt: !21)
!24 = !DILocation(line: 8, column: 2, scope: !12, inlinedAt: !23)
!25 = !DILocation(line: 0, scope: !10)
!26 = !DILocation(line: 15, column: 1, scope: !10)
