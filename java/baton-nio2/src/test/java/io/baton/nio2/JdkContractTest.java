package io.baton.nio2;

import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Tag;

/** The rules of NIO.2 on the JDK's own provider: every assertion is proved here first. */
@Tag("jdk")
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
  class Nesting extends NestingContract {
    Nesting() {
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
