package server

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/ledger/store"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/abuse"
)

// filledLedger runs a ledger, under the memory of its manifests, with jobs of one namespace that say all that may be said.
func filledLedger(t *testing.T) *sandbox.Ledger {
	t.Helper()
	if err := cluster.InstallLedger(t.Context()); err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	s, err := store.Open(filepath.Join(data, "ledger.db"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	text, now := strings.Repeat("\\", 500), time.Now()
	err = s.Update(func(tx *store.Tx) error {
		for i := range 20_000 {
			job := ledger.Job{
				UID: fmt.Sprint("job-", i), Namespace: team, Name: fmt.Sprint("job-", i), Object: "jobs", User: text, Message: text, Status: "Cancelled",
				Created: now.Add(-time.Minute), Finished: now.Add(-time.Second), Deleted: now.Add(-time.Second),
			}
			if err := tx.PutJob(&job); err != nil {
				return err
			}
		}
		return nil
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	process, err := cluster.StartLedger(t.Context(), sandbox.LedgerOptions{
		Binary: program(t, sandbox.LedgerName), Args: []string{"--data-dir=" + data},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Kill() })
	return process
}

// TestAnswersThatNobodyReadsTakeNothingFromOthers: the largest answers there are, of the ledger and of the server that asks it, on
// many connections and under several names, of which nothing is read. Twelve of them were all the memory of the ledger.
func TestAnswersThatNobodyReadsTakeNothingFromOthers(t *testing.T) {
	makeSuspended(t, "quiet", training("quiet"))
	running := filledLedger(t)
	g := launch(t, "--ledger="+running.URL, "--ledger-ca="+running.CAFile)
	l := &target{T: t, Server: &sandbox.Server{Process: running.Process, URL: running.URL, CAFile: running.CAFile}, ca: g.ca}
	callers := append([]string{attacker}, accomplices...)
	idle, idleLedger := g.latency(100, closed()), l.asked(30)
	count := some(60, 200)
	for i := range count {
		caller := callers[i%len(callers)]
		l.leaveUnread(caller, "/ledger/v1/jobs?namespace=team&limit=20000")
		g.leaveUnread(caller, "/api/v1/finished-jobs?namespace=team&limit=20000")
	}
	waited, waitedLedger := g.latency(100, closed()), l.asked(30)
	t.Logf("%d connections each; the server took %d MiB, the ledger %d; the neighbour waits %s for the server, idle it is %s, and %s for the ledger, idle it is %s",
		count, g.resident("VmHWM")>>20, l.resident("VmHWM")>>20, waited, idle, waitedLedger, idleLedger)
	for name, program := range map[string]*target{"server": g, "ledger": l} {
		if most := program.resident("VmHWM"); most > maxResident {
			t.Errorf("the %s took %d MiB", name, most>>20)
		}
	}
	if most := max(3*time.Second, abuse.OthersWait()); waited > most || waitedLedger > most {
		t.Errorf("the neighbour waits %s for the server, and %s for the ledger", waited, waitedLedger)
	}
}

// leaveUnread sends a request, and reads nothing of its answer.
func (g *target) leaveUnread(caller, path string) {
	g.Helper()
	connection, err := g.dial(g.Context(), "http/1.1")
	if err != nil {
		return // it has enough of this address
	}
	g.Cleanup(func() { _ = connection.Close() })
	if tcp, ok := connection.NetConn().(*net.TCPConn); !ok || tcp.SetReadBuffer(4<<10) != nil {
		g.Fatal("the connection takes in more than it should")
	}
	_, _ = fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path, tokens[caller])
}

// asked is how long the slowest of so many questions of the neighbour to the ledger takes.
func (g *target) asked(times int) (most time.Duration) {
	g.Helper()
	browser := g.browser(neighbour)
	defer browser.CloseIdleConnections()
	for range times {
		began := time.Now()
		status, text, err := g.send(g.Context(), browser, neighbour, call{path: "/ledger/v1/jobs?namespace=team&limit=10"})
		if err != nil || status != http.StatusOK {
			g.Errorf("the neighbour gets status %d of the ledger, error %v: %.200s", status, err, text)
		}
		most = max(most, time.Since(began))
	}
	return most
}
