package io.baton.test;

import org.junit.jupiter.api.Nested;

/** A user's own engine, found by its provider, keeps the contract, too (J-04). */
@EngineWords("engine=own")
class OwnTest {

  @Nested
  class Streams extends StreamContract {}

  @Nested
  class Tries extends TryContract {
    @Override
    protected boolean movesHere() {
      return false;
    }
  }

  @Nested
  class EarlyEnds extends CancelContract {}

  @Nested
  class Handlers extends HandlerContract {}

  @Nested
  class Futures extends FuturesContract {}

  @Nested
  class Times extends TimeContract {}

  @Nested
  class Datagrams extends DatagramContract {}

  @Nested
  class Files extends FileContract {}

  @Nested
  class PooledReads extends PooledContract {}

  @Nested
  class BadInput extends BadInputContract {}

  @Nested
  class Load extends LoadContract {}
}
