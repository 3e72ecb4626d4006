package io.baton.bench;

import io.baton.AsynchChannel;
import io.baton.AsynchHandler;
import io.baton.Demultiplexor;
import io.baton.OpAccept;
import io.baton.OpRead;
import io.baton.OpWrite;
import java.io.IOException;
import java.nio.ByteBuffer;

/** Baton's own interface, on the engine that {@code BATON} names. */
final class BatonEcho implements AsynchHandler {
  private final int block;

  private BatonEcho(int block) {
    this.block = block;
  }

  /** One connection. */
  private static final class Session implements AsynchHandler {
    @Override
    public void onReadCompleted(OpRead opRead) {
      if (opRead.getError() != null || opRead.getBytesCompleted() == 0) {
        opRead.getAsynchChannel().close();
      } else {
        opRead.getAsynchChannel().write(opRead.getBuffer());
      }
    }

    @Override
    public void onWriteCompleted(OpWrite opWrite) {
      if (opWrite.getError() != null) {
        opWrite.getAsynchChannel().close();
      } else {
        opWrite.getAsynchChannel().read(opWrite.getBuffer().clear());
      }
    }
  }

  @Override
  public void onAcceptCompleted(OpAccept opAccept) throws IOException {
    if (opAccept.getError() == null) {
      opAccept.open(new Session()).read(ByteBuffer.allocateDirect(block));
      opAccept.getAsynchChannel().accept();
    }
  }

  public static void main(String[] words) throws Exception {
    EchoCommand command = EchoCommand.of(words);
    Demultiplexor demultiplexor =
        Demultiplexor.builder().threads(command.threads).fromEnvironment().open();
    AsynchChannel listener = demultiplexor.listen(command.address(), new BatonEcho(command.block));
    listener.accept();
    EchoCommand.listening(listener.getLocalAddress());
    Thread.currentThread().join();
  }
}
