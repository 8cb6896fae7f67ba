/* Calls inlined two deep, and one that is not: debug information to check source lines against. */
typedef __attribute__((address_space(1))) float global_float;
#define KERNEL __attribute__((amdgpu_kernel))
static inline float inner(float x) { return x * x + 1.0f; }
static inline float outer(float x, int n) {
  float sum = 0;
  for (int i = 0; i < n; i++)
    sum += inner(x + i);
  return sum;
}
__attribute__((noinline)) float called(float x) { return outer(x, 3) + 2; }
KERNEL void one(global_float *p, int n) {
  int t = __builtin_amdgcn_workitem_id_x();
  p[t] = outer(p[t], n) + inner(p[t + 1]);
}
KERNEL void two(global_float *p) {
  int t = __builtin_amdgcn_workitem_id_x();
  p[t] = called(p[t]);
}
