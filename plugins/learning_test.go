package plugins

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/backfill"
	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/survival"
)

// TestPromisesLearnFromTheLedger that is named, with the scheduler's credentials, and from no other.
func TestPromisesLearnFromTheLedger(t *testing.T) {
	asked := make(chan string, 10)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Authorization") + " " + r.URL.Path
		fmt.Fprint(w, `{"items":[{"namespace":"team","pool":"default","gpus":8,"seconds":60}]}`)
	}))
	defer server.Close()
	authority := filepath.Join(t.TempDir(), "ca.crt")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(authority, block, 0o600); err != nil {
		t.Fatal(err)
	}
	promises := backfill.NewStartReservations(nil)
	learn := newLearner(promises, Dependencies{})
	config := &rest.Config{Host: "https://apiserver.invalid", BearerToken: "token"}
	if err := learn(t.Context(), server.URL, authority, config); err != nil {
		t.Fatal(err)
	}
	if err := learn(t.Context(), server.URL, authority, config); err != nil {
		t.Errorf("another profile that names it: %v", err)
	}
	if err := learn(t.Context(), "https://other.invalid", authority, config); err == nil || !strings.Contains(err.Error(), "name one ledger in all of them") {
		t.Errorf("another profile that names another: %v", err)
	}
	if got, want := <-asked, "Bearer token "+ledger.APIRoot+"runs"; got != want {
		t.Errorf("it was asked with %q, want %q", got, want)
	}
	for range 100 {
		if promises.HasHistory() {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if !promises.HasHistory() {
		t.Error("nothing is learnt")
	}
	if len(asked) > 0 {
		t.Errorf("it was asked once more, by %q", <-asked)
	}
}

// TestAReplayAsksNoLedger, whatever the configuration names, and knows what it was told.
func TestAReplayAsksNoLedger(t *testing.T) {
	for name, past := range map[string]*survival.History{"it was told": {}, "it was told nothing": nil} {
		t.Run(name, func(t *testing.T) {
			promises := backfill.NewStartReservations(nil)
			if err := newLearner(promises, Dependencies{Replay: true, Past: past})(t.Context(), "https://ledger.invalid", "/none", nil); err != nil {
				t.Fatal(err)
			}
			if promises.HasHistory() != (past != nil) {
				t.Errorf("it learns: %v", promises.HasHistory())
			}
		})
	}
}

// TestALedgerThatCannotBeAsked stops the scheduler with what is wrong, before it schedules anything.
func TestALedgerThatCannotBeAsked(t *testing.T) {
	for name, tc := range map[string]struct {
		authority string
		config    *rest.Config
		want      string
	}{
		"no credentials":         {want: "no credentials"},
		"a file that is missing": {authority: "/none/ca.crt", config: &rest.Config{Host: "https://apiserver.invalid"}, want: "/none/ca.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			err := newLearner(backfill.NewStartReservations(nil), Dependencies{})(t.Context(), "https://ledger.invalid", tc.authority, tc.config)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
