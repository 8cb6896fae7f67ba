// Sums of rows: each work-item takes a row, so that the lanes of a wave read 64 lines at a time.
#include <hip/hip_runtime.h>

#ifndef THREADS
#define THREADS 256
#endif
#define ROWS 65536
#define COLUMNS 1024

// KINSPECT_LAUNCH row_sums grid=ROWS/THREADS workgroup=THREADS args="f32[ROWS*COLUMNS], f32[ROWS], i32 COLUMNS"
__global__ void row_sums(const float* rows, float* sums, int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int column = 0; column < columns; ++column) sum += rows[row * columns + column];
  sums[row] = sum;
}
