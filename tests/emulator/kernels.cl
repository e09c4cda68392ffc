// Small kernels whose results plain Python works out. One work-item per element unless it says more.
typedef atomic_uint counter;
#define LOCAL 64
static inline uint lid(void) { return __builtin_amdgcn_workitem_id_x(); }
static inline uint wid(void) { return __builtin_amdgcn_workgroup_id_x(); }
static inline uint gid(void) { return wid() * LOCAL + lid(); }
static inline void sync(void) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

__kernel void saxpy(__global float *y, __global const float *x, float a, int n) {
  int i = gid();
  if (i < n) y[i] = a * x[i] + y[i];
}

__kernel void reduce(__global int *out, __global const int *in) {
  __local int tmp[256];
  int l = lid();
  tmp[l] = in[wid() * 256 + l];
  sync();
  for (int s = 128; s > 0; s >>= 1) {
    if (l < s) tmp[l] += tmp[l + s];
    sync();
  }
  if (l == 0) out[wid()] = tmp[0];
}

__kernel void collatz(__global uint *out) {
  uint i = gid(), n = i + 1, c = 0;
  while (n != 1) { n = (n & 1) ? 3 * n + 1 : n / 2; c++; }
  out[i] = c;
}

__kernel void divide(__global int *q, __global int *r, __global const int *a, __global const int *b) {
  int i = gid();
  q[i] = a[i] / b[i];
  r[i] = a[i] % b[i];
}

__kernel void divide_long(__global long *q, __global const long *a, __global const long *b) {
  int i = gid();
  q[i] = a[i] / b[i];
}

__kernel void doubles(__global double *y, __global const double *x) {
  int i = gid();
  double v = x[i];
  y[i] = v * v / 3.0 + v;
}

__kernel void quotient(__global float *y, __global const float *a, __global const float *b) {
  int i = gid();
  y[i] = a[i] / b[i];
}

__kernel void bytes(__global uchar *y, __global const uchar *x) {
  int i = gid();
  y[i] = x[i] * 3 + (x[i] >> 2);
}

__kernel void histogram(__global uint *h, __global const uchar *x) {
  __opencl_atomic_fetch_add((__global counter *)&h[x[gid()]], 1, memory_order_relaxed,
                            memory_scope_device);
}

__kernel void ticket(__global uint *next, __global uint *mine) {
  mine[gid()] = __opencl_atomic_fetch_add((__global counter *)next, 1, memory_order_relaxed,
                                          memory_scope_device);
}

__kernel void shorts(__global short *y, __global const short *x) {
  int i = gid();
  short v = x[i];
  y[i] = v * v - (v < 0 ? 3 : v);
}

__kernel void matmul(__global float *c, __global const float *a, __global const float *b, int n) {
  int i = gid(), j = __builtin_amdgcn_workgroup_id_y();
  float s = 0;
  for (int k = 0; k < n; k++) s += a[j * n + k] * b[k * n + i];
  c[j * n + i] = s;
}

__kernel void scratch(__global int *y, __global const int *x) {
  int i = gid();
  int t[8], s = 0;
  for (int k = 0; k < 8; k++) t[k] = x[i * 8 + k];
  for (int k = 0; k < 8; k++) s = s * 3 + t[(x[i * 8] + k) & 7];
  y[i] = s;
}

__kernel void longs(__global long *y, __global const long *x) {
  int i = gid();
  long v = x[i];
  y[i] = v * v * 3 + (v >> 3) - (v << 2);
}

// Wave 0 of the workgroup waits for what wave 1 writes.
__kernel void handshake(__global counter *flag, __global uint *out) {
  if (lid() < 64) {
    while (__opencl_atomic_load(flag, memory_order_acquire, memory_scope_device) == 0) ;
    out[lid()] = 7;
  } else if (lid() == 64) {
    __opencl_atomic_store(flag, 1, memory_order_release, memory_scope_device);
  }
}

#pragma OPENCL EXTENSION cl_khr_fp16 : enable
__kernel void halves(__global half *y, __global const half *x) {
  int i = gid();
  half v = x[i];
  y[i] = v * v + (half)1.5;
}

__kernel void bits(__global uint *y, __global const uint *x) {
  int i = gid();
  uint v = x[i];
  uint r = __builtin_popcount(v) + __builtin_clz(v | 1) * 3;
  y[i] = r ^ __builtin_bitreverse32(v) ^ __builtin_rotateleft32(v, i & 31);
}
