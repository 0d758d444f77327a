package agent

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// An agent that is asked to end hands over to the agent that stands by, if there is one. The successor registers with kubelet first, because kubelet
// rejects for good what it admits while no plugin serves it. So there are two locks. The holder of turnFile registers, and gives it up as soon as it is
// asked to end; the holder of lockFile writes, and gives it up when it has ended. Agents of older versions use lockFile alone.

// turnFile is beside the CDI specs. Its text says whether its holder has registered.
const turnFile = ".g8s.host-agent.turn"

// registered is that text.
const registered = "registered"

const (
	// standbyTimeout is how long an agent that stands by may take to notice that it is its turn.
	standbyTimeout = 5 * lockRetryDelay
	// successorTimeout is how long it may take from then on until it has registered: it has to find the cards, and who has them.
	successorTimeout = 5 * time.Second
)

// turn is the right to register with kubelet.
type turn struct {
	file *os.File
	// handedOver is true if another agent had it.
	handedOver bool
	log        *slog.Logger
}

// acquireTurn waits until no other agent registers.
func acquireTurn(ctx context.Context, dir string, log *slog.Logger) (*turn, error) {
	file, waited, err := acquireFile(ctx, filepath.Join(dir, turnFile), log)
	if err != nil {
		return nil, err
	}
	return &turn{file: file, handedOver: waited, log: log}, nil
}

// recordRegistered records for the agent before this one that kubelet asks this one for all resources.
func (t *turn) recordRegistered() {
	if _, err := t.file.WriteAt([]byte(registered), 0); err != nil {
		t.log.Warn("Recording that kubelet asks this agent: the one before ends a little later", "error", err)
	}
}

func (t *turn) release() { _ = t.file.Close() }

// handOver gives the turn away. It returns when another agent has registered, or none stands by, or the time is over.
func (t *turn) handOver(most time.Duration) {
	path := t.file.Name()
	if err := t.file.Truncate(0); err != nil {
		return
	}
	t.release()
	if !waitUntil(standbyTimeout, func() bool { return isLocked(path) }) {
		return // no agent stands by
	}
	if !waitUntil(most, func() bool { text, err := os.ReadFile(path); return err == nil && string(text) == registered }) {
		t.log.Warn("The agent that follows has not registered: until it has, kubelet rejects pods with cards", "waited", most)
	}
}

// isLocked reports whether another process has locked a file.
func isLocked(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	return syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == syscall.EWOULDBLOCK
}

// waitUntil waits until something is so, and reports whether it is.
func waitUntil(most time.Duration, is func() bool) bool {
	for end := time.Now().Add(most); ; time.Sleep(turnPoll) {
		if is() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// turnPoll leaves an agent that stands by the time to take the lock: a look at the lock holds it for a moment.
const turnPoll = 30 * time.Millisecond
