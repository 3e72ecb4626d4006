package io.baton.test;

import io.baton.DemultiplexorBuilder;
import org.junit.jupiter.api.Nested;

/** A user's own engine, found by its provider, keeps the contract, too (J-04). */
class OwnTest {
  private static DemultiplexorBuilder own(DemultiplexorBuilder builder) {
    return builder.engine("own");
  }

  @Nested
  class Streams extends StreamContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return own(builder);
    }
  }

  @Nested
  class EarlyEnds extends CancelContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return own(builder);
    }
  }

  @Nested
  class Handlers extends HandlerContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return own(builder);
    }
  }

  @Nested
  class Times extends TimeContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return own(builder);
    }
  }

  @Nested
  class Datagrams extends DatagramContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return own(builder);
    }
  }

  @Nested
  class Files extends FileContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return own(builder);
    }
  }

  @Nested
  class PooledReads extends PooledContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return own(builder);
    }
  }

  @Nested
  class BadInput extends BadInputContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return own(builder);
    }
  }

  @Nested
  class Load extends LoadContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return own(builder);
    }
  }
}
