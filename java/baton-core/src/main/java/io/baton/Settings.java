package io.baton;

import java.util.Map;
import java.util.concurrent.ThreadFactory;
import java.util.function.Consumer;

/** The settings of a {@link Demultiplexor}. Immutable. */
record Settings(
    int threads,
    int operationsMax,
    long writeBytesMax,
    int pooledBufferSize,
    int pooledBuffersMax,
    int fileThreads,
    ThreadFactory threadFactory,
    Consumer<Throwable> exceptionHandler,
    Map<String, String> engineWords) {}
