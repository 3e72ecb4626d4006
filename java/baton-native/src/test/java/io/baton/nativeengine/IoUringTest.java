package io.baton.nativeengine;

import io.baton.DemultiplexorBuilder;
import io.baton.test.AllocationContract;
import io.baton.test.BadInputContract;
import io.baton.test.CancelContract;
import io.baton.test.DatagramContract;
import io.baton.test.FileContract;
import io.baton.test.HandlerContract;
import io.baton.test.LimitsContract;
import io.baton.test.LoadContract;
import io.baton.test.PooledContract;
import io.baton.test.StreamContract;
import io.baton.test.TimeContract;
import org.junit.jupiter.api.Nested;

/** The engine {@code native} with the C++ engine io_uring keeps the contract. */
class IoUringTest {
  private static final String WORDS = "engine=native,native.engine=io_uring";

  private static DemultiplexorBuilder chosen(DemultiplexorBuilder builder) {
    return builder.engine("native").set("native.engine", "io_uring");
  }

  @Nested
  class Streams extends StreamContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return chosen(builder);
    }
  }

  @Nested
  class EarlyEnds extends CancelContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return chosen(builder);
    }
  }

  @Nested
  class Handlers extends HandlerContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return chosen(builder);
    }
  }

  @Nested
  class Times extends TimeContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return chosen(builder);
    }
  }

  @Nested
  class Datagrams extends DatagramContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return chosen(builder);
    }
  }

  @Nested
  class Files extends FileContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return chosen(builder);
    }
  }

  @Nested
  class PooledReads extends PooledContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return chosen(builder);
    }
  }

  @Nested
  class BadInput extends BadInputContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return chosen(builder);
    }
  }

  @Nested
  class Load extends LoadContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return chosen(builder);
    }
  }

  @Nested
  class Allocation extends AllocationContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return chosen(builder);
    }
  }

  @Nested
  class Limits extends LimitsContract {
    @Override
    protected DemultiplexorBuilder choose(DemultiplexorBuilder builder) {
      return chosen(builder);
    }

    @Override
    protected String words() {
      return WORDS;
    }
  }
}
