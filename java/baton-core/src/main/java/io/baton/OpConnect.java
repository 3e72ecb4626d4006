package io.baton;

import java.net.SocketAddress;

/**
 * A completed connect.
 *
 * <p><b>Threads and ownership:</b> as {@link Operation}.
 */
public final class OpConnect extends Operation {
  SocketAddress address;

  OpConnect(AsynchChannel channel) {
    super(channel);
  }

  /**
   * The address of the start.
   *
   * @return never null
   */
  public SocketAddress getAddress() {
    return address;
  }

  @Override
  void call(AsynchHandler handler) throws Exception {
    handler.onConnectCompleted(this);
  }
}
