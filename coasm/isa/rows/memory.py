"""Vector memory: buffers, global, flat, scratch, images, tensors: see :mod:`coasm.isa.table`."""

__all__ = ["ROWS"]

ROWS = """
1250 save = tensor_save
1250 cache = tensor_stop
908..950,1100.. atomic T = {buffer,global}_atomic_add_f32
90a..950,1250 atomic T = {flat,buffer,global}_atomic_add_f64
90a..950 atomic T = {flat,buffer,global}_atomic_{max,min}_f64
9-4-generic..950,1100.. atomic T = flat_atomic_add_f32
1100.. atomic T = {flat,buffer,global}_atomic_{add,dec,inc,max,min,sub}_{u32,u64}
    {flat,buffer,global}_atomic_{max,min}_{i32,i64}
    {flat,buffer,global}_atomic_{or,and,xor,swap}_{b32,b64}
1100..1150 atomic T = {buffer,global}_atomic_csub_u32 {flat,buffer,global}_atomic_{max,min}_f32
1200.. atomic T = {flat,buffer,global}_atomic_cond_sub_u32
    {flat,buffer,global}_atomic_sub_clamp_u32 {flat,buffer,global}_atomic_{max,min}_num_f32
1200 atomic T = global_atomic_ordered_add_b64
1250 atomic T = {flat,buffer,global}_atomic_{max,min}_num_f64
801..1030 atomic b128/b64 = {flat,buffer}_atomic_cmpswap_x2
9-generic..1030 atomic b128/b64 = global_atomic_cmpswap_x2
1010..1030 atomic b128/b64 = {flat,buffer,global}_atomic_fcmpswap_x2
1100.. atomic b128/b64 = {flat,buffer,global}_atomic_cmpswap_b64
801..1030 atomic b32 = {flat,buffer}_atomic_{or,add,and,dec,inc,sub,xor,smax,smin,swap,umax,umin}
9-generic..1030 atomic b32 = global_atomic_{or,add,and,dec,inc,sub,xor,smax,smin,swap,umax,umin}
908..950,1200.. atomic b32 = {buffer,global}_atomic_pk_add_f16
9-4-generic..950,1200.. atomic b32 = flat_atomic_pk_add_f16 {flat,global}_atomic_pk_add_bf16
950,1200.. atomic b32 = buffer_atomic_pk_add_bf16
1010..1030 atomic b32 = {flat,buffer,global}_atomic_{fmax,fmin}
1030 atomic b32 = {buffer,global}_atomic_csub
801..1030 atomic b64 =
    {flat,buffer}_atomic_{or,add,and,dec,inc,sub,xor,smax,smin,swap,umax,umin}_x2
801..1030 atomic b64/b32 = {flat,buffer}_atomic_cmpswap
9-generic..1030 atomic b64 =
    global_atomic_{or,add,and,dec,inc,sub,xor,smax,smin,swap,umax,umin}_x2
9-generic..1030 atomic b64/b32 = global_atomic_cmpswap
1010..1030 atomic b64 = {flat,buffer,global}_atomic_{fmax,fmin}_x2
1010..1030 atomic b64/b32 = {flat,buffer,global}_atomic_fcmpswap
1100..1150 atomic b64/b32 = {flat,buffer,global}_atomic_cmpswap_f32
1100.. atomic b64/b32 = {flat,buffer,global}_atomic_cmpswap_b32
801..90a,1010..1200 atomic texel = image_atomic_{or,and,xor,swap,cmpswap}
801..90a,1010..1150 atomic texel = image_atomic_{add,dec,inc,sub,smax,smin,umax,umin}
1010..1030 atomic texel = image_atomic_{fmax,fmin,fcmpswap}
1200 atomic texel = image_atomic_pk_add_{f16,bf16} image_atomic_{add,dec,inc,max,min,sub}_uint
    image_atomic_{add,max,min}_flt image_atomic_{max,min}_int
801..90a cache = buffer_wbinvl1 buffer_wbinvl1_vol
90a..950 cache = buffer_wbl2
90a cache = buffer_invl2
9-4-generic..950 cache = buffer_inv
1010..1150 cache = buffer_{gl0,gl1}_inv
1200.. cache = global_{wb,inv,wbinv}
801..90a from_lds < m0 = buffer_store_lds_dword
1250 from_lds = tensor_store_from_lds
1250 from_lds < asynccnt > asynccnt = global_store_async_from_lds_{b8,b32,b64,b128}
1100.. load T = global_load_addtid_b32 {flat,buffer,global,scratch}_load_{b32,b64,b96,b128}
1200 load T = global_load_tr_{b64,b128}
1250 load T < m0 = cluster_load_{b32,b64,b128}
1250 load T = flat_load_monitor_{b32,b64,b128} global_load_monitor_b32
    global_load_tr6_b96 global_load_{tr16,monitor}_b128 global_load_{tr4,tr8,monitor}_b64
1200.. load b1024 < m0 = {global,scratch}_load_block
801..1200 load b128 = {buffer,tbuffer}_load_format_xyzw
801..1030 load b128 = {flat,buffer}_load_dwordx4
9-generic..1030 load b128 = {global,scratch}_load_dwordx4
801..1200 load b32 = {buffer,tbuffer}_load_format_x
801..1030 load b32 = {flat,buffer}_load_{dword,sbyte,ubyte,sshort,ushort}
9-generic..1030 load b32 = {global,scratch}_load_{dword,sbyte,ubyte,sshort,ushort}
1030 load b32 = global_load_dword_addtid
1100.. load b32 = {flat,buffer,global,scratch}_load_{i8,u8,i16,u16}
801..1200 load b64 = {buffer,tbuffer}_load_format_xy
801..1030 load b64 = {flat,buffer}_load_dwordx2
9-generic..1030 load b64 = {global,scratch}_load_dwordx2
801..1200 load b96 = {buffer,tbuffer}_load_format_xyz
801..1030 load b96 = {flat,buffer}_load_dwordx3
9-generic..1030 load b96 = {global,scratch}_load_dwordx3
801 load k:b128 = {buffer,tbuffer}_load_format_d16_xyzw
801..1030 load k:b32 = {buffer,tbuffer}_load_format_d16_x
9-generic..1030 load k:b32 = buffer_load_format_d16_hi_x {buffer,tbuffer}_load_format_d16_xy
    {flat,buffer,global,scratch}_load_{sbyte,short,ubyte}_d16
    {flat,buffer,global,scratch}_load_{sbyte,short,ubyte}_d16_hi
1100..1200 load k:b32 = buffer_load_d16_hi_format_x {buffer,tbuffer}_load_d16_format_{x,xy}
1100.. load k:b32 = {flat,buffer,global,scratch}_load_d16_hi_{i8,u8,b16}
    {flat,buffer,global,scratch}_load_d16_{i8,u8,b16}
801 load k:b64 = {buffer,tbuffer}_load_format_d16_xy
9-generic..1030 load k:b64 = {buffer,tbuffer}_load_format_d16_{xyz,xyzw}
1100..1200 load k:b64 = {buffer,tbuffer}_load_d16_format_{xyz,xyzw}
801 load k:b96 = {buffer,tbuffer}_load_format_d16_xyz
801..90a,1010..1200 load texel = image_get_resinfo image_load image_load_mip_pck
    image_load_mip_pck_sgn image_load_pck_sgn image_load_{mip,pck}
1030..1200 load texel = image_{bvh,bvh64}_intersect_ray
1100..1200 load texel = image_msaa_load
1200 load texel = image_bvh8_intersect_ray image_bvh_dual_intersect_ray
1250 prefetch = {flat,global}_prefetch_b8
801..908,1010..1200 sample texel = image_gather4 image_gather4_c_lz_o image_gather4_c_{b,l,cl,lz}
    image_gather4_lz_o image_gather4_{b,c,l,o,cl,lz} image_get_lod image_sample_c_d_cl
    image_sample_c_{b,d,l,cl,lz} image_sample_c_{b,d,l,cl,lz}_o image_sample_c_{b,d}_cl_o
    image_sample_d_cl image_sample_{b,c,d,l,cl,lz}_o image_sample_{b,c,d,l,o,cl,lz}
    image_sample_{b,d}_cl_o image_{sample,gather4}_b_cl image_{sample,gather4}_c_b_cl
801..908,1010..1030 sample texel = image_gather4_b_cl_o image_gather4_c_b_cl_o
    image_gather4_c_{b,l,cl}_o image_gather4_{b,c,l,cl}_o image_sample_c_cd image_sample_c_cd_cl_o
    image_sample_c_cd_{o,cl} image_sample_cd image_sample_cd_cl_o image_sample_cd_{o,cl}
801..90a,1010..1200 sample texel = image_sample
9-generic..908,1010..1200 sample texel = image_gather4h
1100..1200 sample texel = image_sample_c_d_cl_o_g16 image_sample_c_d_g16
    image_sample_c_d_{o,cl}_g16 image_sample_d_cl_o_g16 image_sample_d_g16
    image_sample_d_{o,cl}_g16
1100.. store T = {flat,buffer,global,scratch}_store_{b32,b64,b96,b128}
1200.. store b1024 < m0 = {global,scratch}_store_block
801..1200 store b128 = {buffer,tbuffer}_store_format_xyzw
801 store b128 = {buffer,tbuffer}_store_format_d16_xyzw
801..1030 store b128 = {flat,buffer}_store_dwordx4
9-generic..1030 store b128 = {global,scratch}_store_dwordx4
801..1200 store b32 = {buffer,tbuffer}_store_format_x
801..1030 store b32 = {buffer,tbuffer}_store_format_d16_x {flat,buffer}_store_{byte,dword,short}
9-generic..1030 store b32 = buffer_store_format_d16_hi_x {buffer,tbuffer}_store_format_d16_xy
    {flat,buffer,global,scratch}_store_{byte,short}_d16_hi
    {global,scratch}_store_{byte,dword,short}
1100..1200 store b32 = buffer_store_d16_hi_format_x {buffer,tbuffer}_store_d16_format_{x,xy}
1100.. store b32 = {flat,buffer,global,scratch}_store_d16_hi_{b8,b16}
    {flat,buffer,global,scratch}_store_{b8,b16}
801..1200 store b64 = {buffer,tbuffer}_store_format_xy
801 store b64 = {buffer,tbuffer}_store_format_d16_xy
801..1030 store b64 = {flat,buffer}_store_dwordx2
9-generic..1030 store b64 = {buffer,tbuffer}_store_format_d16_{xyz,xyzw}
    {global,scratch}_store_dwordx2
1030 store b64 = global_store_dword_addtid
1100..1200 store b64 = {buffer,tbuffer}_store_d16_format_{xyz,xyzw}
1100.. store b64 = global_store_addtid_b32
801..1200 store b96 = {buffer,tbuffer}_store_format_xyz
801 store b96 = {buffer,tbuffer}_store_format_d16_xyz
801..1030 store b96 = {flat,buffer}_store_dwordx3
9-generic..1030 store b96 = {global,scratch}_store_dwordx3
801..90a,1010..1200 store texel = image_store image_store_mip_pck image_store_{mip,pck}
9-4-generic..950 to_lds < m0 = {global,scratch}_load_lds_{dword,sbyte,ubyte,sshort,ushort}
950 to_lds < m0 = global_load_lds_{dwordx3,dwordx4}
1250 to_lds = tensor_load_to_lds
1250 to_lds < asynccnt > asynccnt = global_load_async_to_lds_{b8,b32,b64,b128}
1250 to_lds < asynccnt m0 > asynccnt = cluster_load_async_to_lds_{b8,b32,b64,b128}
"""
