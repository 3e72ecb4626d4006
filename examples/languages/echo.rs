//! An echo server in Rust, on the C interface (baton.h, docs/guide/c.md), without a crate.
//!
//!     rustc -O echo.rs -L LIBDIR -l baton && ./echo [PORT]     prints "listening PORT"
//!     ./echo --layouts      prints the structs as this program has them, like `layouts`
#![allow(non_camel_case_types)]

use std::collections::HashMap;
use std::ffi::CString;
use std::io::Write;
use std::mem::{size_of, size_of_val, zeroed};
use std::os::raw::{c_char, c_int, c_void};
use std::os::unix::io::{FromRawFd, OwnedFd};
use std::ptr::{null, null_mut};

#[repr(C)]
struct baton_config {
    size: u32,
    completion_size: u32,
    slots: u32,
    flags: u32,
    text: *const c_char,
}

#[repr(C)]
struct baton_endpoint {
    address: [u64; 14],
    length: u32,
    reserved: u32,
}

#[repr(C)]
struct baton_operation {
    size: u32,
    kind: u16,
    flags: u16,
    handle: u64,
    tag: u64,
    data: *mut c_void,
    length: usize,
    offset: u64,
    deadline_ns: i64,
    endpoint: *mut baton_endpoint,
    delimiter: *const c_void,
    delimiter_size: u32,
    notify: u32,
}

#[repr(C)]
struct baton_completion {
    tag: u64,
    result: i64,
    activation: u64,
    error: i32,
    kind: u16,
    reserved: u16,
    data: *mut c_void,
    handle: u64,
}

extern "C" {
    fn baton_open(
        config: *const baton_config,
        out: *mut *mut c_void,
        reason: *mut c_char,
        reason_size: usize,
    ) -> c_int;
    fn baton_close(proactor: *mut c_void);
    fn baton_listen(
        proactor: *mut c_void,
        endpoint: *const c_char,
        backlog: c_int,
        out: *mut u64,
    ) -> c_int;
    fn baton_local_endpoint(proactor: *mut c_void, handle: u64, out: *mut baton_endpoint) -> c_int;
    fn baton_endpoint_print(endpoint: *const baton_endpoint, text: *mut c_char, size: usize)
        -> usize;
    fn baton_adopt(
        proactor: *mut c_void,
        descriptor: c_int,
        kind: c_int,
        ownership: c_int,
        out: *mut u64,
    ) -> c_int;
    fn baton_handle_close(proactor: *mut c_void, handle: u64) -> c_int;
    fn baton_start(
        proactor: *mut c_void,
        operations: *const baton_operation,
        count: c_int,
        activations: *mut u64,
        why_not: *mut c_int,
    ) -> c_int;
    fn baton_wait(
        proactor: *mut c_void,
        out: *mut baton_completion,
        max: c_int,
        timeout_ns: i64,
    ) -> c_int;
    fn baton_error_text(error: c_int, text: *mut c_char, size: usize) -> usize;
}

const ENVIRONMENT: u32 = 1;
const STREAM_SOCKET: c_int = 1;
const OWNED: c_int = 0;
const TRY_AGAIN: c_int = 11;
const NOT_ENOUGH_MEMORY: c_int = 12;
const READ_STREAM: u16 = 1;
const WRITE_STREAM: u16 = 2;
const ACCEPT: u16 = 7;
const EXACTLY: u16 = 2;
const BATCH: usize = 64;
const BUFFER: usize = 8192;

/// A connection. The library may write to the buffer until the read is complete, so it has a place
/// of its own and is freed after the last completion.
struct Session {
    handle: u64,
    buffer: Box<[u8; BUFFER]>,
}

struct Echo {
    proactor: *mut c_void,
    listener: u64,
    sessions: HashMap<u64, Session>,
    next_tag: u64,
    accepting: bool,
}

fn text_of(buffer: &[u8]) -> String {
    String::from_utf8_lossy(buffer.split(|byte| *byte == 0).next().unwrap()).into_owned()
}

fn checked(what: &str, error: c_int) {
    if error != 0 {
        let mut text = [0u8; 256];
        unsafe { baton_error_text(error, text.as_mut_ptr().cast(), text.len()) };
        eprintln!("cannot {what}: {}", text_of(&text));
        std::process::exit(1);
    }
}

impl Echo {
    fn new(port: &str) -> Echo {
        let config = baton_config {
            size: size_of::<baton_config>() as u32,
            completion_size: size_of::<baton_completion>() as u32,
            slots: 16384,
            flags: ENVIRONMENT,
            text: null(),
        };
        let mut why = [0u8; 256];
        let mut echo = Echo {
            proactor: null_mut(),
            listener: 0,
            sessions: HashMap::new(),
            next_tag: 1,
            accepting: false,
        };
        let place = CString::new(format!("127.0.0.1:{port}")).unwrap();
        unsafe {
            if baton_open(&config, &mut echo.proactor, why.as_mut_ptr().cast(), why.len()) != 0 {
                eprintln!("cannot open: {}", text_of(&why));
                std::process::exit(1);
            }
            let error = baton_listen(echo.proactor, place.as_ptr(), 1024, &mut echo.listener);
            checked(&format!("listen on 127.0.0.1:{port}"), error);
        }
        echo
    }

    fn port(&self) -> String {
        let mut text = [0u8; 64];
        unsafe {
            let mut endpoint: baton_endpoint = zeroed();
            let error = baton_local_endpoint(self.proactor, self.listener, &mut endpoint);
            checked("tell the port", error);
            baton_endpoint_print(&endpoint, text.as_mut_ptr().cast(), text.len());
        }
        text_of(&text).rsplit(':').next().unwrap().to_string()
    }

    /// 0 if it was taken; then its completion comes. Else why not.
    fn start(&self, kind: u16, handle: u64, tag: u64, bytes: (*mut u8, usize), flags: u16) -> c_int {
        let mut why_not = 0;
        unsafe {
            let mut one: baton_operation = zeroed();
            one.size = size_of::<baton_operation>() as u32;
            (one.kind, one.flags, one.handle, one.tag) = (kind, flags, handle, tag);
            (one.data, one.length) = (bytes.0.cast(), bytes.1);
            baton_start(self.proactor, &one, 1, null_mut(), &mut why_not);
        }
        why_not
    }

    /// Without a free slot it is tried again after the next completions.
    fn accept(&mut self) {
        let error = self.start(ACCEPT, self.listener, 0, (null_mut(), 0), 0);
        self.accepting = error == 0;
        if error != TRY_AGAIN {
            checked("accept", error);
        }
    }

    fn transfer(&mut self, kind: u16, tag: u64, length: usize) {
        let session = self.sessions.get_mut(&tag).unwrap();
        let (handle, data) = (session.handle, session.buffer.as_mut_ptr());
        let flags = if kind == WRITE_STREAM { EXACTLY } else { 0 };
        if self.start(kind, handle, tag, (data, length), flags) != 0 {
            self.end(tag);
        }
    }

    fn begin(&mut self, descriptor: c_int) {
        let mut handle = 0;
        let error =
            unsafe { baton_adopt(self.proactor, descriptor, STREAM_SOCKET, OWNED, &mut handle) };
        if error != 0 {
            if error != NOT_ENOUGH_MEMORY {
                // Else it is closed already.
                drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
            }
            return;
        }
        let tag = self.next_tag;
        self.next_tag += 1;
        self.sessions.insert(tag, Session { handle, buffer: Box::new([0; BUFFER]) });
        self.transfer(READ_STREAM, tag, BUFFER);
    }

    fn end(&mut self, tag: u64) {
        if let Some(session) = self.sessions.remove(&tag) {
            unsafe { baton_handle_close(self.proactor, session.handle) };
        }
    }

    fn completed(&mut self, done: &baton_completion) {
        match (done.kind, done.error, done.result) {
            (ACCEPT, error, descriptor) => {
                self.accepting = false;
                checked("accept", error); // the listener or the engine is lost
                self.begin(descriptor as c_int);
            }
            (READ_STREAM, 0, length) if length > 0 => {
                self.transfer(WRITE_STREAM, done.tag, length as usize)
            }
            (WRITE_STREAM, 0, _) => self.transfer(READ_STREAM, done.tag, BUFFER),
            _ => self.end(done.tag),
        }
    }

    fn run(&mut self) {
        let mut done: [baton_completion; BATCH] = unsafe { zeroed() };
        loop {
            if !self.accepting {
                self.accept();
            }
            let count =
                unsafe { baton_wait(self.proactor, done.as_mut_ptr(), BATCH as c_int, -1) };
            if count < 0 {
                return;
            }
            for one in &done[..count as usize] {
                self.completed(one);
            }
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        unsafe { baton_close(self.proactor) };
    }
}

macro_rules! layout {
    ($type:ident: $($member:ident),*) => {
        println!("{} {}", stringify!($type), size_of::<$type>());
        let one: $type = unsafe { zeroed() };
        $(println!("{}.{} {} {}", stringify!($type), stringify!($member),
                   &one.$member as *const _ as usize - &one as *const _ as usize,
                   size_of_val(&one.$member));)*
    };
}

fn print_layouts() {
    layout!(baton_config: size, completion_size, slots, flags, text);
    layout!(baton_endpoint: address, length, reserved);
    layout!(baton_operation: size, kind, flags, handle, tag, data, length, offset, deadline_ns,
            endpoint, delimiter, delimiter_size, notify);
    layout!(baton_completion: tag, result, activation, error, kind, reserved, data, handle);
}

fn main() {
    if let Some(more) = std::env::args().nth(2) {
        eprintln!("'{more}' is one argument too many");
        std::process::exit(2);
    }
    let argument = std::env::args().nth(1).unwrap_or_else(|| "7007".to_string());
    if argument == "--layouts" {
        print_layouts();
        return;
    }
    let mut echo = Echo::new(&argument);
    let line = format!("listening {}\n", echo.port());
    let mut output = std::io::stdout();
    if let Err(error) = output.write_all(line.as_bytes()).and_then(|_| output.flush()) {
        eprintln!("standard output: {error}");
        std::process::exit(1);
    }
    echo.run();
}
