package io.baton.nativeengine;

/**
 * The structs and numbers of baton.h that the engine uses: sizes, and offsets in bytes. A test
 * compares them with the header.
 */
final class Layouts {
  private Layouts() {}

  /** {@code baton_config}. */
  static final class Config {
    static final int SIZE = 24;
    static final int OWN_SIZE = 0;
    static final int COMPLETION_SIZE = 4;
    static final int SLOTS = 8;
    static final int FLAGS = 12;
    static final int TEXT = 16;

    private Config() {}
  }

  /** {@code baton_operation}. */
  static final class Operation {
    static final int SIZE = 80;
    static final int OWN_SIZE = 0;
    static final int KIND = 4;
    static final int FLAGS = 6;
    static final int HANDLE = 8;
    static final int TAG = 16;
    static final int DATA = 24;
    static final int LENGTH = 32;
    static final int ENDPOINT = 56;

    private Operation() {}
  }

  /** {@code baton_completion}. */
  static final class Completion {
    static final int SIZE = 48;
    static final int TAG = 0;
    static final int RESULT = 8;
    static final int ERROR = 24;

    private Completion() {}
  }

  /** {@code baton_batch}. */
  static final class Batch {
    static final int SIZE = 32;
    static final int OWN_SIZE = 0;
    static final int COUNT = 4;
    static final int OPERATIONS = 8;
    static final int ACTIVATIONS = 16;
    static final int TAKEN = 24;
    static final int WHY_NOT = 28;

    private Batch() {}
  }

  /** {@code baton_endpoint}. */
  static final class Endpoint {
    static final int SIZE = 120;
    static final int ADDRESS = 0;
    static final int LENGTH = 112;

    private Endpoint() {}
  }

  /** {@code baton_option}. */
  static final class Option {
    static final int SIZE = 24;
    static final int OWN_SIZE = 0;
    static final int LEVEL = 4;
    static final int NAME = 8;
    static final int VALUE_SIZE = 12;
    static final int VALUE = 16;

    private Option() {}
  }

  /** Kinds of operations. */
  static final class Kind {
    static final short READ_STREAM = 1;
    static final short WRITE_STREAM = 2;
    static final short READ_DATAGRAM = 5;
    static final short WRITE_DATAGRAM = 6;
    static final short CONNECT = 8;
    static final short WAIT_READY = 10;
    static final short CLOSE = 12;

    private Kind() {}
  }

  static final short READABLE = 32;

  static final int STREAM_SOCKET = 1;
  static final int LISTENER = 2;
  static final int DATAGRAM_SOCKET = 3;
  static final int OWNED = 0;
}
