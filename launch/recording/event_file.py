"""TensorBoard's event file, written directly: a scalar takes a few microseconds, and errors reach the caller."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard import summary

from launch.errors import OutputError
from launch.recording.metric_table import EVALUATION, RETURN


class EventFile:
    """Scalars for TensorBoard (see `launch.recording.tracker.Tracker`). Used from one thread at a time.

    Args:
        directory: the run's directory, whose name TensorBoard shows.
        settings: values by key, for the table of hyper-parameters.
        texts: Markdown by title.
    """

    num_dropped = 0

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, float | str] = MappingProxyType({}),
        texts: Mapping[str, str] = MappingProxyType({}),
    ):
        self._path = directory / f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        try:
            self._file = self._path.open("wb")
        except OSError as error:
            raise self._error(error) from error
        self._records = RecordWriter(self._file)
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))
        summaries = [summary.text(title, text) for title, text in texts.items()]
        if settings:
            # Experiment and session; the session's end would say that the run is over.
            summaries += summary.hparams(dict(settings), {RETURN: 0.0, EVALUATION: 0.0})[:2]
        for each in summaries:
            self._write(Event(wall_time=time.time(), summary=each))

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Add scalars at a global step (env steps) and flush.

        Raises:
            OutputError: the file cannot be written.
        """
        scalars = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        self._write(Event(wall_time=time.time(), step=step, summary=scalars))

    def video(self, step: int, path: Path) -> None:
        """Do nothing: the video is in the run's directory, and TensorBoard shows only GIFs."""

    def forget_after(self, step: int) -> None:
        """Write the mark on which TensorBoard drops the events from `step` on in the directory's earlier files."""
        self._write(Event(wall_time=time.time(), step=step, session_log=SessionLog(status=SessionLog.START)))

    def close(self) -> None:
        """Close the file."""
        try:
            self._file.close()
        except OSError as error:
            raise self._error(error) from error

    def __enter__(self) -> EventFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, event: Event) -> None:
        try:
            self._records.write(event.SerializeToString())
            self._records.flush()
        except OSError as error:
            raise self._error(error) from error

    def _error(self, error: OSError) -> OutputError:
        remedy = "free space, then continue with --resume"
        return OutputError("run-dir", f"{self._path}: {error.strerror or error}", remedy)
