package io.baton;

import java.util.Map;
import java.util.concurrent.ThreadFactory;
import java.util.function.Consumer;

/** What a {@link Demultiplexor} was opened with. Immutable. */
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
