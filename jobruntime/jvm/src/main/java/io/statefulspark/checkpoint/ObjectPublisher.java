package io.statefulspark.checkpoint;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import java.util.zip.CRC32;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Files as S3 objects, written with one PUT when the draft is published.
 *
 * <p>A created object has the id of its writer in a header. When a PUT fails, its answer may have been lost after it
 * took effect; the header then shows whether this writer created the object. Another header has the CRC-32 of its content,
 * since nothing else tells it before a checkpoint does, and one the claim of the driver. What is replaced are files of state,
 * with checksum files beside them.
 */
final class ObjectPublisher implements FilePublisher {
  static final String CONDITIONAL_CREATE = "fs.option.create.conditional.overwrite";
  private static final String NO_PROBES = "fs.s3a.create.performance";
  private static final String HEADER = "fs.s3a.create.header.";
  private static final String WRITER = "statefulspark-writer";
  private static final String CHECKSUM = "statefulspark-crc32";
  private static final String CLAIM = "statefulspark-claim";
  private static final int HELD_BYTES = 1 << 20;

  private final FileSystem fs;

  ObjectPublisher(FileSystem fs) {
    this.fs = fs;
  }

  @Override
  public Draft create(Path path) {
    return new NewObject(path);
  }

  @Override
  public Draft replace(Path path) throws IOException {
    FSDataOutputStreamBuilder<?, ?> builder = fs.createFile(path).recursive().overwrite(true);
    builder.opt(NO_PROBES, true);
    return new Replacement((FSDataOutputStream) builder.build());
  }

  private record Replacement(FSDataOutputStream stream) implements Draft {
    @Override
    public void publish() throws IOException {
      stream.close();
    }

    @Override
    public void discard() {
      ObjectPublisher.discard(stream);
    }
  }

  private static void discard(FSDataOutputStream out) {
    try {
      out.abort();
      out.close();
    } catch (IOException | RuntimeException nothingWasPublished) {
      // S3A reports an aborted stream as an error on close; no object exists in either case.
    }
  }

  /** A file in memory, since its headers come before its content; a large one, of a source's log, goes on without a checksum. */
  private final class NewObject extends OutputStream implements Draft {
    private final Path path;
    private final String writer = UUID.randomUUID().toString();
    private final ByteArrayOutputStream held = new ByteArrayOutputStream();
    private FSDataOutputStream out;

    NewObject(Path path) {
      this.path = path;
    }

    @Override
    public OutputStream stream() {
      return this;
    }

    @Override
    public void write(int single) throws IOException {
      write(new byte[] {(byte) single}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
      if (out == null && held.size() + length > HELD_BYTES) {
        open(null);
      }
      (out == null ? held : out).write(bytes, offset, length);
    }

    @Override
    public void publish() throws IOException {
      if (out == null) {
        CRC32 sum = new CRC32();
        sum.update(held.toByteArray());
        open(String.format("%08x", sum.getValue()));
      }
      try {
        out.close();
      } catch (IOException failure) {
        requireOurs(failure);
      }
    }

    @Override
    public void discard() {
      if (out != null) {
        ObjectPublisher.discard(out);
      }
    }

    private void open(String checksum) throws IOException {
      FSDataOutputStreamBuilder<?, ?> builder = fs.createFile(path).recursive().overwrite(false);
      builder.opt(NO_PROBES, true);
      builder.must(CONDITIONAL_CREATE, true);
      builder.opt(HEADER + WRITER, writer);
      if (checksum != null) {
        builder.opt(HEADER + CHECKSUM, checksum);
      }
      String claim = EpochFence.claim();
      if (claim != null) {
        builder.opt(HEADER + CLAIM, claim);
      }
      out = (FSDataOutputStream) builder.build();
      held.writeTo(out);
      held.reset();
    }

    /** Returns if the object on storage is this draft; throws otherwise. */
    private void requireOurs(IOException failure) throws IOException {
      String found;
      try {
        found = writerOf(path);
      } catch (IOException unknown) {
        failure.addSuppressed(unknown);
        throw failure;
      }
      if (found == null) {
        throw failure;
      }
      if (!found.equals(writer)) {
        FileAlreadyExistsException lost = new FileAlreadyExistsException(path + " was written by another writer");
        lost.initCause(failure);
        throw lost;
      }
    }
  }

  /** Returns the writer of an object, "" for an object without a writer's id, or null when there is no object. */
  private String writerOf(Path path) throws IOException {
    try {
      byte[] value = fs.getXAttr(path, "header." + WRITER);
      return value == null ? "" : new String(value, StandardCharsets.UTF_8);
    } catch (FileNotFoundException absent) {
      return null;
    }
  }
}
