package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestAnAgentThatStandsBySaysThatItLives: kubelet would end it after half a minute, again and again, and wait for minutes until it lets it
// begin when its turn has come.
func TestAnAgentThatStandsBySaysThatItLives(t *testing.T) {
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	other, err := acquireNodeLock(t.Context(), dir, log)
	if err != nil {
		t.Fatal(err)
	}
	defer other.releaseLock()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, nil, &Options{CDIDir: dir, KubeletDir: dir, MetricsAddress: address, Log: log})
	}()
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		answer, err := http.Get("http://" + address + "/healthz")
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("it answers %s", answer.Status)
			}
			break
		}
		if time.Now().After(until) {
			t.Fatalf("it does not answer while it stands by: %v", err)
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v, want that it was told to", err)
	}
}

// TestTurnsAreHandedOver: who is told to end waits until who stands by has registered, and does not wait where nobody does.
func TestTurnsAreHandedOver(t *testing.T) {
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	first, err := acquireTurn(t.Context(), dir, log)
	if err != nil || first.handedOver {
		t.Fatalf("the first turn was handed over: %v, error %v", first.handedOver, err)
	}
	first.recordRegistered()
	next := make(chan *turn, 1)
	go func() {
		second, err := acquireTurn(t.Context(), dir, log)
		if err != nil {
			t.Error(err)
		}
		next <- second
	}()
	time.Sleep(3 * lockRetryDelay)
	over := make(chan struct{})
	go func() {
		defer close(over)
		first.handOver(time.Minute)
	}()
	second := <-next
	if !second.handedOver {
		t.Error("who followed does not know that it did")
	}
	select {
	case <-over:
		t.Error("the first ended before the second had registered")
	case <-time.After(time.Second):
	}
	second.recordRegistered()
	<-over
	began := time.Now()
	second.handOver(time.Minute)
	if took := time.Since(began); took > 10*standbyTimeout {
		t.Errorf("who has no successor waited for %s", took)
	}
}
