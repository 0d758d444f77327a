package sandbox

import (
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	tailLines = 20
	tailBytes = 16 << 10
)

// TailLog returns the last lines of a log file, or the reason why it cannot be read.
func TailLog(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
			return fmt.Sprintf("(no log: %v)", err)
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, tailBytes))
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return lastLines(string(data), tailLines)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// ExitError reports a process of the sandbox that ended without a request, or did not become ready.
type ExitError struct {
	// Name is the process's name, such as etcd.
	Name string
	// Reason is how it ended, such as "exit status 1", or why the wait was aborted.
	Reason string
	// Log is the path of its log. The file is gone once the sandbox has stopped.
	Log string
	// Tail is the end of its log at that time.
	Tail string
	// Code is its exit code, 0 if unknown, -1 if a signal ended it.
	Code int
}

// HasPanicked reports whether the process ended like a Go program with an unrecovered panic (runtime, "exit code 2").
func (e *ExitError) HasPanicked() bool { return e.Code == codeOfPanic }

const codeOfPanic = 2

// Error returns the name, the reason and the end of the log, over several lines.
func (e *ExitError) Error() string {
	return fmt.Sprintf("%s: %s; the end of its log:\n%s", e.Name, e.Reason, indentText(e.Tail))
}

func indentText(text string) string {
	return "    " + strings.ReplaceAll(text, "\n", "\n    ")
}
