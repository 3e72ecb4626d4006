package io.baton.bench;

import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.IoHandlerFactory;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.ServerChannel;
import io.netty.channel.epoll.EpollIoHandler;
import io.netty.channel.epoll.EpollServerSocketChannel;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.channel.uring.IoUringIoHandler;
import io.netty.channel.uring.IoUringServerSocketChannel;

/** Netty 4.2, with each of its transports. */
final class NettyEcho {
  private NettyEcho() {}

  /** Echoes, and flushes when there is nothing more to read. */
  private static final class Echo extends ChannelInboundHandlerAdapter {
    @Override
    public void channelRead(ChannelHandlerContext context, Object message) {
      context.write(message, context.voidPromise());
    }

    @Override
    public void channelReadComplete(ChannelHandlerContext context) {
      context.flush();
    }

    @Override
    public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
      context.close();
    }
  }

  public static void main(String[] words) throws Exception {
    EchoCommand command = EchoCommand.of(words);
    IoHandlerFactory handlers;
    Class<? extends ServerChannel> type;
    switch (command.transport) {
      case "epoll" -> {
        handlers = EpollIoHandler.newFactory();
        type = EpollServerSocketChannel.class;
      }
      case "io_uring" -> {
        handlers = IoUringIoHandler.newFactory();
        type = IoUringServerSocketChannel.class;
      }
      default -> {
        handlers = NioIoHandler.newFactory();
        type = NioServerSocketChannel.class;
      }
    }
    Channel listener =
        new ServerBootstrap()
            .group(new MultiThreadIoEventLoopGroup(command.threads, handlers))
            .channel(type)
            .option(ChannelOption.SO_BACKLOG, EchoCommand.BACKLOG)
            .childHandler(
                new ChannelInitializer<Channel>() {
                  @Override
                  protected void initChannel(Channel connection) {
                    connection.pipeline().addLast(new Echo());
                  }
                })
            .bind(command.address())
            .sync()
            .channel();
    EchoCommand.listening(listener.localAddress());
    listener.closeFuture().sync();
  }
}
