package io.statefulspark.checkpoint;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.UUID;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Path;

/**
 * Files on local disk, for development: written to a hidden file beside the target, then linked (which fails if the
 * target exists) or renamed to the target.
 */
final class LocalPublisher implements FilePublisher {

  @Override
  public Draft create(Path path) throws IOException {
    return new LocalDraft(localPath(path), false);
  }

  @Override
  public Draft replace(Path path) throws IOException {
    return new LocalDraft(localPath(path), true);
  }

  private static java.nio.file.Path localPath(Path path) {
    return java.nio.file.Path.of(path.toUri().getPath());
  }

  private static final class LocalDraft implements Draft {
    private final java.nio.file.Path target;
    private final java.nio.file.Path temporary;
    private final boolean replaces;
    private final OutputStream out;

    LocalDraft(java.nio.file.Path target, boolean replaces) throws IOException {
      this.target = target;
      this.replaces = replaces;
      Files.createDirectories(target.getParent());
      this.temporary = target.resolveSibling("." + target.getFileName() + "." + UUID.randomUUID() + ".tmp");
      this.out = Files.newOutputStream(temporary);
    }

    @Override
    public OutputStream stream() {
      return out;
    }

    @Override
    public void publish() throws IOException {
      try {
        out.close();
        if (replaces) {
          Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE);
        } else {
          Files.createLink(target, temporary);
        }
      } catch (java.nio.file.FileAlreadyExistsException taken) {
        FileAlreadyExistsException lost = new FileAlreadyExistsException(target + " was written by another writer");
        lost.initCause(taken);
        throw lost;
      } finally {
        discard();
      }
    }

    @Override
    public void discard() {
      try {
        out.close();
        Files.deleteIfExists(temporary);
      } catch (IOException leftover) {
        // A hidden file stays on a developer's disk; nothing reads it.
      }
    }
  }
}
