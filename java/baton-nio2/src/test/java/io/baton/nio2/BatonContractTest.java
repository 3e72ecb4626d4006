package io.baton.nio2;

import org.junit.jupiter.api.Nested;

/** The rules of NIO.2 on Baton, engine nio (J-05). */
class BatonContractTest {

  @Nested
  class Connecting extends ConnectContract {
    Connecting() {
      super(Maker.BATON);
    }
  }

  @Nested
  class Transferring extends TransferContract {
    Transferring() {
      super(Maker.BATON);
    }
  }

  @Nested
  class Nesting extends NestingContract {
    Nesting() {
      super(Maker.BATON);
    }
  }

  @Nested
  class Ending extends EndContract {
    Ending() {
      super(Maker.BATON);
    }
  }

  @Nested
  class Grouping extends GroupContract {
    Grouping() {
      super(Maker.BATON);
    }
  }
}
