// OpenMP's names on the host, where its package is not installed.
#pragma once
#if __has_include_next(<omp.h>)
#include_next <omp.h>
#else
#pragma clang system_header
extern "C" {
int omp_get_thread_num(void); int omp_get_num_threads(void); int omp_get_max_threads(void); int omp_get_num_procs(void);
void omp_set_num_threads(int); int omp_in_parallel(void); double omp_get_wtime(void); double omp_get_wtick(void);
void omp_set_nested(int); void omp_set_dynamic(int);
typedef struct omp_lock_t { void* lock; } omp_lock_t;
void omp_init_lock(omp_lock_t*); void omp_set_lock(omp_lock_t*); void omp_unset_lock(omp_lock_t*); void omp_destroy_lock(omp_lock_t*);
}
#endif
