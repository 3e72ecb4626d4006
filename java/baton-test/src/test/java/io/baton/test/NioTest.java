package io.baton.test;

import org.junit.jupiter.api.Nested;

/** The engine {@code nio} keeps the contract. */
@EngineWords("engine=nio")
class NioTest {

  @Nested
  class Streams extends StreamContract {}

  @Nested
  class Tries extends TryContract {}

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

  @Nested
  class Allocation extends AllocationContract {}

  @Nested
  class Limits extends LimitsContract {}
}
