package io.baton.nativeengine;

/**
 * The functions that the engine calls: those of baton.h, and the system's for sockets that no
 * engine has yet. The one door to native code, so that tests can count what passes and let it fail.
 *
 * <p>Addresses are numbers here: the engine keeps the memory behind them, and a segment would cost
 * a check of its arena in every call. Functions of baton.h answer as the header says; those of the
 * system answer the negated errno where they fail.
 */
interface NativeCalls {
  // -- baton.h -----------------------------------------------------------------------------------

  int open(long config, long out, long reason, long reasonSize);

  void close(long proactor);

  int attach(long proactor);

  int exchange(long proactor, long batch, long completions, int most, long nanoseconds);

  void wake(long proactor);

  int adopt(long proactor, int descriptor, int kind, int ownership, long out);

  int cancel(long proactor, long activation);

  int setOption(long proactor, long handle, long option);

  long explain(long proactor, long text, long size);

  long engines(long text, long size);

  int engineReason(long engine, long reason, long size);

  long errorText(int error, long text, long size);

  // -- the system's ------------------------------------------------------------------------------

  int socket(int family, int type);

  int bind(int descriptor, long address, int length);

  int listen(int descriptor, int backlog);

  /** The connection is non-blocking and closed on exec. */
  int accept(int descriptor);

  /** What has arrived at a stream; waits for nothing. */
  int receive(int descriptor, long address, int length);

  /** What a stream takes now; waits for nothing, and raises no signal. */
  int send(int descriptor, long address, int length);

  int connect(int descriptor, long address, int length);

  int ownName(int descriptor, long address, long length);

  int peerName(int descriptor, long address, long length);

  int setSocketOption(int descriptor, int level, int name, long value, int length);

  int getSocketOption(int descriptor, int level, int name, long value, long length);

  int shutdown(int descriptor, int how);

  int closeDescriptor(int descriptor);
}
