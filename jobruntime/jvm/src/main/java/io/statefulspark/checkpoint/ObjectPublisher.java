package io.statefulspark.checkpoint;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Files as S3 objects, written with one PUT when the draft is published.
 *
 * <p>A created object has the id of its writer in a header. When a PUT fails, its answer may have been lost after it
 * took effect; the header then shows whether this writer created the object.
 */
final class ObjectPublisher implements FilePublisher {
  static final String CONDITIONAL_CREATE = "fs.option.create.conditional.overwrite";
  private static final String NO_PROBES = "fs.s3a.create.performance";
  private static final String WRITER = "statefulspark-writer";

  private final FileSystem fs;

  ObjectPublisher(FileSystem fs) {
    this.fs = fs;
  }

  @Override
  public Draft create(Path path) throws IOException {
    String writer = UUID.randomUUID().toString();
    FSDataOutputStreamBuilder<?, ?> builder = fs.createFile(path).recursive().overwrite(false);
    builder.opt(NO_PROBES, true);
    builder.must(CONDITIONAL_CREATE, true);
    builder.opt("fs.s3a.create.header." + WRITER, writer);
    return new ObjectDraft((FSDataOutputStream) builder.build(), path, writer);
  }

  @Override
  public Draft replace(Path path) throws IOException {
    FSDataOutputStreamBuilder<?, ?> builder = fs.createFile(path).recursive().overwrite(true);
    builder.opt(NO_PROBES, true);
    return new ObjectDraft((FSDataOutputStream) builder.build(), path, null);
  }

  private final class ObjectDraft implements Draft {
    private final FSDataOutputStream out;
    private final Path path;
    private final String writer;

    ObjectDraft(FSDataOutputStream out, Path path, String writer) {
      this.out = out;
      this.path = path;
      this.writer = writer;
    }

    @Override
    public OutputStream stream() {
      return out;
    }

    @Override
    public void publish() throws IOException {
      try {
        out.close();
      } catch (IOException failure) {
        if (writer == null) {
          throw failure;
        }
        requireOurs(failure);
      }
    }

    @Override
    public void discard() {
      try {
        out.abort();
        out.close();
      } catch (IOException | RuntimeException nothingWasPublished) {
        // S3A reports an aborted stream as an error on close; no object exists in either case.
      }
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
