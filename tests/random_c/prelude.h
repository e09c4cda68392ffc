// What every random program stands on: types, and operations that are defined for all operands.
// The same text is plain C and OpenCL C, for amdgcn and for the host.
typedef char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long i64;
typedef unsigned long u64;
typedef __int128 i128;
typedef unsigned __int128 u128;
typedef _Float16 f16;
typedef __bf16 bf16;
typedef float f32;
typedef double f64;

#define VECTORS(T)                                                                                 \
  typedef T T##x2 __attribute__((ext_vector_type(2)));                                             \
  typedef T T##x3 __attribute__((ext_vector_type(3)));                                             \
  typedef T T##x4 __attribute__((ext_vector_type(4)));                                             \
  typedef T T##x8 __attribute__((ext_vector_type(8)));                                             \
  typedef T T##x16 __attribute__((ext_vector_type(16)));
VECTORS(i8) VECTORS(u8) VECTORS(i16) VECTORS(u16) VECTORS(i32) VECTORS(u32) VECTORS(i64)
VECTORS(u64) VECTORS(f16) VECTORS(bf16) VECTORS(f32) VECTORS(f64)

#ifdef __AMDGCN__
#define LIMIT(n) __attribute__((amdgpu_flat_work_group_size(1, n)))
#ifdef __OPENCL_C_VERSION__
#define GLOBAL __global
#define KERNEL __kernel
#define LDS_OF_FILE(T, name, n)
#define LDS_OF_KERNEL(T, name, n) __local T name[n];
#define CONSTANT __constant
#else
#define GLOBAL __attribute__((address_space(1)))
#define KERNEL __attribute__((amdgpu_kernel))
#define LDS_OF_FILE(T, name, n)                                                                    \
  static __attribute__((loader_uninitialized, address_space(3))) T name[n];
#define LDS_OF_KERNEL(T, name, n)
#define CONSTANT static const
#endif
#define BARRIER                                                                                    \
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");                                           \
  __builtin_amdgcn_s_barrier();                                                                    \
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
#define ORDER(scope) __ATOMIC_RELAXED, scope
#define ATOMIC(op, p, v, scope) __scoped_atomic_fetch_##op(p, v, ORDER(scope))
#define EXCHANGE(p, v, scope) __scoped_atomic_exchange_n(p, v, ORDER(scope))
#define SWAP_IF(p, old, v, scope)                                                                  \
  __scoped_atomic_compare_exchange_n(p, &(old), v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED, scope)
#else
#define GLOBAL
#ifdef __OPENCL_C_VERSION__
#define CONSTANT __constant
#else
#define CONSTANT static const
#endif
// The host runs one lane after the other, so that plain operations are atomic.
#define host_add(a, b) ((a) + (b))
#define host_sub(a, b) ((a) - (b))
#define host_and(a, b) ((a) & (b))
#define host_or(a, b) ((a) | (b))
#define host_xor(a, b) ((a) ^ (b))
#define host_min(a, b) ((b) < (a) ? (b) : (a))
#define host_max(a, b) ((b) > (a) ? (b) : (a))
#define ATOMIC(op, p, v, scope)                                                                    \
  ({                                                                                               \
    __typeof__(+*(p)) _was = *(p);                                                                 \
    *(p) = host_##op(_was, (__typeof__(_was))(v));                                                 \
    _was;                                                                                          \
  })
#define EXCHANGE(p, v, scope)                                                                      \
  ({                                                                                               \
    __typeof__(+*(p)) _was = *(p);                                                                 \
    *(p) = (v);                                                                                    \
    _was;                                                                                          \
  })
#define SWAP_IF(p, old, v, scope) (*(p) == (old) ? (*(p) = (v), 1) : ((old) = *(p), 0))

// libgcc before 13 has no conversion to bfloat16. To nearest even; from double by way of a float
// that is rounded to odd.
u16 bf16_of_float(f32 x) {
  u32 b = ((union { f32 f; u32 u; }){.f = x}).u;
  return x != x ? 0x7fc0 : (b + 0x7fff + (b >> 16 & 1)) >> 16;
}
f32 odd_of_double(f64 x) {
  f32 y = (f32)x;
  if (x != x || (f64)y == x) return y;
  union { f32 f; u32 u; } r = {.f = y};
  if (((f64)y > x) == (x > 0)) r.u -= 1;  // was rounded away from zero
  r.u |= 1;
  return r.f;
}
bf16 __truncsfbf2(f32 x) { return ((union { u16 u; bf16 b; }){.u = bf16_of_float(x)}).b; }
bf16 __truncdfbf2(f64 x) {
  return ((union { u16 u; bf16 b; }){.u = bf16_of_float(odd_of_double(x))}).b;
}
#endif

// One of two vectors for each element, by the result of a comparison.
#define SELECT(V, M)                                                                               \
  static inline V select_##V(M m, V a, V b) { return m ? a : b; }
#define SELECTS(T, M)                                                                              \
  SELECT(T##x2, M##x2) SELECT(T##x3, M##x3) SELECT(T##x4, M##x4) SELECT(T##x8, M##x8)              \
  SELECT(T##x16, M##x16)
SELECTS(i8, i8) SELECTS(u8, i8) SELECTS(i16, i16) SELECTS(u16, i16) SELECTS(i32, i32)
SELECTS(u32, i32) SELECTS(i64, i64) SELECTS(u64, i64) SELECTS(f16, i16) SELECTS(bf16, i16)
SELECTS(f32, i32) SELECTS(f64, i64)

// Bits of a float: every NaN has the same ones, as C leaves its sign and payload open.
#define BITS(F, U, NAN_BITS)                                                                       \
  union F##_bits { F f; U u; };                                                                    \
  static inline U bits_##F(F x) {                                                                  \
    union F##_bits b;                                                                              \
    b.f = x;                                                                                       \
    return x != x ? (U)NAN_BITS : b.u;                                                             \
  }                                                                                                \
  static inline F from_bits_##F(U x) {                                                             \
    union F##_bits b;                                                                              \
    b.u = x;                                                                                       \
    if (b.f != b.f) b.u = (U)NAN_BITS;                                                             \
    return b.f;                                                                                    \
  }                                                                                                \
  static inline F sign_##F(F x) { return x != x ? (F)1.0f : x; }
BITS(f16, u16, 0x7e00)
BITS(bf16, u16, 0x7fc0)
BITS(f32, u32, 0x7fc00000)
BITS(f64, u64, 0x7ff8000000000000ul)

// Division: by 1 instead of 0, and without the one signed quotient that overflows.
#define DIVIDE_U(T)                                                                                \
  static inline T div_##T(T a, T b) { return a / (b ? b : (T)1); }                                 \
  static inline T mod_##T(T a, T b) { return a % (b ? b : (T)1); }
#define DIVIDE_I(T, U)                                                                             \
  static inline T div_##T(T a, T b) { return b == -1 ? (T)(0 - (U)a) : (T)(a / (b ? b : (T)1)); }  \
  static inline T mod_##T(T a, T b) { return b == -1 ? (T)0 : (T)(a % (b ? b : (T)1)); }
DIVIDE_U(u8) DIVIDE_U(u16) DIVIDE_U(u32) DIVIDE_U(u64) DIVIDE_U(u128)
DIVIDE_I(i8, u8) DIVIDE_I(i16, u16) DIVIDE_I(i32, u32) DIVIDE_I(i64, u64) DIVIDE_I(i128, u128)

// Float to integer: 0 where the truncated value is not one of the type's.
#define TO_INT(T, F, LOW, HIGH)                                                                    \
  static inline T T##_of_##F(F x) { return x > (F)(LOW) && x < (F)(HIGH) ? (T)x : (T)0; }
#define TO_INTS(F)                                                                                 \
  TO_INT(i8, F, -129.0f, 128.0f) TO_INT(u8, F, -1.0f, 256.0f)                                      \
  TO_INT(i16, F, -0x1p15f, 0x1p15f) TO_INT(u16, F, -1.0f, 0x1p16f)                                 \
  TO_INT(i32, F, -0x1p31f, 0x1p31f) TO_INT(u32, F, -1.0f, 0x1p32f)                                 \
  TO_INT(i64, F, -0x1p63f, 0x1p63f) TO_INT(u64, F, -1.0f, 0x1p64f)                                 \
  TO_INT(i128, F, -0x1p127f, 0x1p127f) TO_INT(u128, F, -1.0f, F##_INF)
#define f32_INF __builtin_inff()
#define f64_INF 0x1p128
TO_INTS(f32) TO_INTS(f64)
#define TO_INT_SMALL(T, F) static inline T T##_of_##F(F x) { return T##_of_f32((f32)x); }
#define TO_INTS_SMALL(F)                                                                           \
  TO_INT_SMALL(i8, F) TO_INT_SMALL(u8, F) TO_INT_SMALL(i16, F) TO_INT_SMALL(u16, F)                \
  TO_INT_SMALL(i32, F) TO_INT_SMALL(u32, F) TO_INT_SMALL(i64, F) TO_INT_SMALL(u64, F)              \
  TO_INT_SMALL(i128, F) TO_INT_SMALL(u128, F)
TO_INTS_SMALL(f16) TO_INTS_SMALL(bf16)

// A fused multiply-add of f16, which x86 lacks: the exact sum, rounded to odd in double, then once.
static inline f16 fma_f16(f16 a, f16 b, f16 c) {
#ifdef __AMDGCN__
  return __builtin_elementwise_fma(a, b, c);
#else
  f64 x = (f64)a * (f64)b, y = (f64)c, sum = x + y, part = sum - x;
  f64 error = (x - (sum - part)) + (y - part);
  if (sum - sum == 0 && error != 0) {
    union f64_bits r = {.f = sum};
    if ((error > 0) != (sum > 0)) r.u -= 1;
    r.u |= 1;
    sum = r.f;
  }
  return (f16)sum;
#endif
}
#define FMA_VECTOR(V, n)                                                                           \
  static inline V fma_##V(V a, V b, V c) {                                                         \
    for (int i = 0; i < n; i++) a[i] = fma_f16(a[i], b[i], c[i]);                                  \
    return a;                                                                                      \
  }
#ifdef __AMDGCN__
#undef FMA_VECTOR
#define FMA_VECTOR(V, n)                                                                           \
  static inline V fma_##V(V a, V b, V c) { return __builtin_elementwise_fma(a, b, c); }
#endif
FMA_VECTOR(f16x2, 2) FMA_VECTOR(f16x3, 3) FMA_VECTOR(f16x4, 4) FMA_VECTOR(f16x8, 8)
FMA_VECTOR(f16x16, 16)
