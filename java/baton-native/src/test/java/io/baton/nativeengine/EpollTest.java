package io.baton.nativeengine;

import io.baton.test.AllocationContract;
import io.baton.test.BadInputContract;
import io.baton.test.CancelContract;
import io.baton.test.DatagramContract;
import io.baton.test.EngineWords;
import io.baton.test.FileContract;
import io.baton.test.FuturesContract;
import io.baton.test.HandlerContract;
import io.baton.test.LimitsContract;
import io.baton.test.LoadContract;
import io.baton.test.PooledContract;
import io.baton.test.StreamContract;
import io.baton.test.TimeContract;
import io.baton.test.TryContract;
import org.junit.jupiter.api.Nested;

/** The engine {@code native} with the C++ engine epoll keeps the contract. */
@EngineWords("engine=native,native.engine=emulated,native.wait=epoll")
class EpollTest {

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
  class Allocation extends AllocationContract {
    @Override
    protected int datagramPeers() {
      return 16;
    }
  }

  @Nested
  class Limits extends LimitsContract {}
}
