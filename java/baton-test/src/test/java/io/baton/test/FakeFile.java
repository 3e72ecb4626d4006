package io.baton.test;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.WritableByteChannel;

/** A file that does nothing but what a test makes of it. */
abstract class FakeFile extends FileChannel {
  @Override
  protected void implCloseChannel() throws IOException {}

  private static UnsupportedOperationException unused() {
    return new UnsupportedOperationException("no test needs it");
  }

  @Override
  public int read(ByteBuffer to) throws IOException {
    throw unused();
  }

  @Override
  public long read(ByteBuffer[] to, int offset, int length) {
    throw unused();
  }

  @Override
  public int write(ByteBuffer from) throws IOException {
    throw unused();
  }

  @Override
  public long write(ByteBuffer[] from, int offset, int length) {
    throw unused();
  }

  @Override
  public long position() {
    throw unused();
  }

  @Override
  public FileChannel position(long position) {
    throw unused();
  }

  @Override
  public long size() {
    throw unused();
  }

  @Override
  public FileChannel truncate(long size) {
    throw unused();
  }

  @Override
  public long transferTo(long position, long count, WritableByteChannel to) {
    throw unused();
  }

  @Override
  public long transferFrom(ReadableByteChannel from, long position, long count) {
    throw unused();
  }

  @Override
  public MappedByteBuffer map(MapMode mode, long position, long size) {
    throw unused();
  }

  @Override
  public FileLock lock(long position, long size, boolean shared) {
    throw unused();
  }

  @Override
  public FileLock tryLock(long position, long size, boolean shared) {
    throw unused();
  }

  @Override
  public int write(ByteBuffer from, long position) throws IOException {
    throw unused();
  }

  @Override
  public int read(ByteBuffer to, long position) throws IOException {
    throw unused();
  }

  @Override
  public void force(boolean metadata) {
    throw unused();
  }
}
