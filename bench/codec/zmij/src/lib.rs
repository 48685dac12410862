//! A row of numbers as the crate zmij prints them, a comma behind each, for bench_write.

/// Writes `count` finite numbers. `to` has room for 24 bytes a number and 24 more.
///
/// # Safety
/// `numbers` points to `count` floats.
#[no_mangle]
pub unsafe extern "C" fn zmij_row(mut to: *mut u8, numbers: *const f32, count: usize) -> *mut u8 {
    let mut buffer = zmij::Buffer::new();
    for i in 0..count {
        let text = buffer.format_finite(*numbers.add(i));
        std::ptr::copy_nonoverlapping(text.as_ptr(), to, 24);
        to = to.add(text.len());
        *to = b',';
        to = to.add(1);
    }
    to
}
