/** Programs to read: the article's echo server, a chat, a copy of a file, idle time-outs. */
package io.baton.examples;
