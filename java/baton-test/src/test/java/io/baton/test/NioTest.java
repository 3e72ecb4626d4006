package io.baton.test;

import io.baton.DemultiplexorBuilder;
import org.junit.jupiter.api.Nested;

/** The engine {@code nio} keeps the contract. */
class NioTest {
  private static DemultiplexorBuilder nio(DemultiplexorBuilder builder) {
    return builder.engine("nio");
  }

  @Nested
  class Streams extends StreamContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return nio(builder);
    }
  }

  @Nested
  class EarlyEnds extends CancelContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return nio(builder);
    }
  }

  @Nested
  class Handlers extends HandlerContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return nio(builder);
    }
  }

  @Nested
  class Times extends TimeContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return nio(builder);
    }
  }

  @Nested
  class Datagrams extends DatagramContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return nio(builder);
    }
  }

  @Nested
  class Files extends FileContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return nio(builder);
    }
  }

  @Nested
  class PooledReads extends PooledContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return nio(builder);
    }
  }

  @Nested
  class BadInput extends BadInputContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return nio(builder);
    }
  }

  @Nested
  class Load extends LoadContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return nio(builder);
    }
  }

  @Nested
  class Allocation extends AllocationContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return nio(builder);
    }
  }

  @Nested
  class Limits extends LimitsContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return nio(builder);
    }

    @Override
    protected String words() {
      return "engine=nio";
    }
  }
}
