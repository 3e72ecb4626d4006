package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.AsynchChannel;
import io.baton.AsynchFutures;
import io.baton.Demultiplexor;
import io.baton.OperationCancelledException;
import io.baton.StoppedException;
import io.baton.test.Completion.What;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Files: rules 3 and 10. */
public abstract class FileContract extends EngineContract {
  private static final StandardOpenOption[] NEW = {
    StandardOpenOption.CREATE_NEW, StandardOpenOption.READ, StandardOpenOption.WRITE
  };

  /** Of the test. */
  @TempDir protected Path folder;

  @Test
  void rule3WithoutPositionsTheOrderIsKept() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel file = demultiplexor.file(folder.resolve("f"), recorder, NEW);
    StringBuilder all = new StringBuilder();
    for (int i = 0; i < 100; i++) {
      file.write(buffer("line " + i + "\n"));
      all.append("line " + i + "\n");
    }
    long sync = file.sync();
    for (int i = 0; i < 100; i++) {
      recorder.nextGood(What.WRITE);
    }
    assertEquals(sync, recorder.nextGood(What.WRITE).activation());
    assertEquals(all.toString(), Files.readString(folder.resolve("f")));
    close(file, recorder);
  }

  @Test
  void rule3AppendingKeepsTheOrder() throws Exception {
    Path path = Files.writeString(folder.resolve("f"), "begin;");
    Recorder recorder = new Recorder();
    AsynchChannel file = demultiplexor.file(path, recorder, StandardOpenOption.APPEND);
    for (int i = 0; i < 10; i++) {
      file.write(buffer(i + ";"));
    }
    for (int i = 0; i < 10; i++) {
      recorder.nextGood(What.WRITE);
    }
    close(file, recorder);
    assertEquals("begin;0;1;2;3;4;5;6;7;8;9;", Files.readString(path));
  }

  @Test
  void positionsAreIndependent() throws Exception {
    Recorder recorder = new Recorder();
    AsynchChannel file = demultiplexor.file(folder.resolve("f"), recorder, NEW);
    Map<Long, String> written = new HashMap<>();
    for (int i = 0; i < 50; i++) {
      written.put(file.write(buffer(String.format("%04d", i)), 4L * i), "");
    }
    // Rule 3: sync waits for the writes that were started before it.
    long sync = file.sync();
    for (int i = 0; i < 50; i++) {
      written.remove(recorder.nextGood(What.WRITE).activation());
    }
    assertTrue(written.isEmpty());
    assertEquals(sync, recorder.nextGood(What.WRITE).activation());

    Map<Long, String> read = new HashMap<>();
    for (int i = 0; i < 50; i++) {
      read.put(file.read(ByteBuffer.allocate(4), 4L * i), String.format("%04d", i));
    }
    for (int i = 0; i < 50; i++) {
      Completion one = recorder.nextGood(What.READ);
      assertEquals(read.remove(one.activation()), one.text());
    }
    file.read(ByteBuffer.allocate(4), 1000);
    assertEquals(0, recorder.nextGood(What.READ).bytes());
    close(file, recorder);
  }

  @Test
  void aLargeBufferOfTheHeapIsMovedWhole() throws Exception {
    // java.nio is shown a part at a time.
    byte[] data = new byte[600_000];
    new SplittableRandom(7).nextBytes(data);
    Path path = folder.resolve("f");
    AsynchFutures file = demultiplexor.file(path, new Recorder(), NEW).futures();
    int size = data.length;
    assertEquals(size, Patience.await(file.write(ByteBuffer.wrap(data), 10), "a write"));
    ByteBuffer room = ByteBuffer.allocate(10 + size);
    assertEquals(10 + size, Patience.await(file.readExactly(room), "a read"));
    assertEquals(ByteBuffer.wrap(data), room.position(10));
    // Its threads do not keep a program alive.
    for (Thread thread : Thread.getAllStackTraces().keySet()) {
      assertTrue(thread.isDaemon() || !thread.getName().equals("baton-file"));
    }
    Patience.await(file.close(), "the close");
  }

  @Test
  void wholeReadsEndAtTheEndOfTheFile() throws Exception {
    Path path = Files.writeString(folder.resolve("f"), "first\nsecond");
    Recorder recorder = new Recorder();
    AsynchChannel file = demultiplexor.file(path, recorder, StandardOpenOption.READ);
    ByteBuffer room = ByteBuffer.allocate(100);
    file.readUntil(room, bytes("\n"));
    assertEquals(6, recorder.nextGood(What.READ).delimiterEnd());
    file.readExactly(ByteBuffer.allocate(10));
    recorder.nextFailed(What.READ, EOFException.class);
    file.read(ByteBuffer.allocate(10));
    assertEquals(0, recorder.nextGood(What.READ).bytes());
    // Opened for reading only.
    file.write(buffer("x"));
    assertTrue(recorder.next(What.WRITE).error() != null);
    close(file, recorder);
  }

  @Test
  void rule10AFileThatBlocksDoesNotBlockItsLane() throws Exception {
    Path pipe = folder.resolve("pipe");
    assertEquals(0, new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor());
    try (Demultiplexor one = builder().threads(1).open()) {
      Recorder waiting = new Recorder();
      AsynchChannel blocked =
          one.file(pipe, waiting, StandardOpenOption.READ, StandardOpenOption.WRITE);
      blocked.read(ByteBuffer.allocate(10));
      Recorder quick = new Recorder();
      try (Connection connection = connected(one, quick)) {
        for (int i = 0; i < 10; i++) {
          connection.channel().read(ByteBuffer.allocate(1));
          connection.peer().getOutputStream().write('a');
          quick.nextGood(What.READ);
        }
      }
      Path path = Files.writeString(folder.resolve("f"), "text");
      AsynchFutures other = one.file(path, new Recorder(), StandardOpenOption.READ).futures();
      assertEquals(4, Patience.await(other.read(ByteBuffer.allocate(9)), "another file"));
      assertEquals(0, waiting.waiting());
      Files.write(pipe, bytes("now"), StandardOpenOption.WRITE);
      assertEquals("now", waiting.nextGood(What.READ).text());
      close(blocked, waiting);
    }
  }

  @Test
  void rule6CloseEndsQueuedFileOperations() throws Exception {
    Path pipe = folder.resolve("pipe");
    assertEquals(0, new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor());
    Recorder recorder = new Recorder();
    AsynchChannel file =
        demultiplexor.file(pipe, recorder, StandardOpenOption.READ, StandardOpenOption.WRITE);
    long first = file.read(ByteBuffer.allocate(10));
    long second = file.read(ByteBuffer.allocate(10));
    // For reading too: opening a pipe without a reader for writing blocks.
    try (FileChannel writer =
        FileChannel.open(pipe, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      writer.write(ByteBuffer.wrap(bytes("x")));
      assertEquals(first, recorder.nextGood(What.READ).activation());
      file.close();
      // Either the second read is in the system, and a byte frees it, or it ends at once.
      writer.write(ByteBuffer.wrap(bytes("y")));
      Completion last = recorder.next(What.READ);
      assertEquals(second, last.activation());
      assertTrue(
          last.error() == null || last.error() instanceof AsynchronousCloseException,
          last::toString);
      recorder.next(What.CLOSED);
    }
  }

  @Test
  void aCancelEndsAFileOperationThatHasNotBegun() throws Exception {
    Path pipe = folder.resolve("pipe");
    assertEquals(0, new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor());
    Path path = Files.writeString(folder.resolve("f"), "text");
    try (Demultiplexor one = builder().threads(1).fileThreads(1).open()) {
      Recorder holding = new Recorder();
      AsynchChannel blocked =
          one.file(pipe, holding, StandardOpenOption.READ, StandardOpenOption.WRITE);
      blocked.read(ByteBuffer.allocate(10));
      Recorder recorder = new Recorder();
      AsynchChannel file = one.file(path, recorder, StandardOpenOption.READ);
      long read = file.read(ByteBuffer.allocate(4));
      assertTrue(file.cancel(read));
      assertTrue(file.cancel(file.read(ByteBuffer.allocate(4), 0L)));
      // It is pending still, so once more is no mistake.
      onLane(file, () -> assertTrue(file.cancel(read)));
      Files.write(pipe, bytes("x"), StandardOpenOption.WRITE);
      holding.nextGood(What.READ);
      recorder.nextFailed(What.READ, OperationCancelledException.class);
      recorder.nextFailed(What.READ, OperationCancelledException.class);
      file.read(ByteBuffer.allocate(4));
      assertEquals("text", recorder.nextGood(What.READ).text());
      close(file, recorder);
      close(blocked, holding);
    }
  }

  @Test
  void aFileThatIsRefusedIsClosed() throws Exception {
    Path path = Files.writeString(folder.resolve("f"), "text");
    Demultiplexor ended = builder().open();
    ended.close();
    assertThrows(
        StoppedException.class, () -> ended.file(path, new Recorder(), StandardOpenOption.READ));
    try (var numbers = Files.list(Path.of("/proc/self/fd"))) {
      for (Path number : numbers.toList()) {
        String target = Files.isSymbolicLink(number) ? number.toFile().getCanonicalPath() : "";
        assertFalse(target.equals(path.toFile().getCanonicalPath()), number::toString);
      }
    }
  }

  private static void close(AsynchChannel file, Recorder recorder) throws IOException {
    file.close();
    recorder.next(What.CLOSED);
    assertEquals(0, recorder.waiting());
  }
}
