package io.baton.nio2;

import org.junit.jupiter.api.Nested;

/** The rules of NIO.2 on the JDK's own provider: every assertion is proved here first. */
class JdkContractTest {

  @Nested
  class Connecting extends ConnectContract {
    Connecting() {
      super(Maker.JDK);
    }
  }

  @Nested
  class Transferring extends TransferContract {
    Transferring() {
      super(Maker.JDK);
    }
  }

  @Nested
  class Ending extends EndContract {
    Ending() {
      super(Maker.JDK);
    }
  }

  @Nested
  class Grouping extends GroupContract {
    Grouping() {
      super(Maker.JDK);
    }
  }
}
