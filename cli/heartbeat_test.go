package cli

import (
	"context"
	"fmt"
	"net/url"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

func TestHeartbeat(t *testing.T) {
	refused := &url.Error{Op: "Get", URL: "https://127.0.0.1:1/version", Err: syscall.ECONNREFUSED}
	tests := map[string]struct {
		// from and to are when the cluster is silent.
		from, to time.Duration
		told     []string
		code     int
		// took is when a command ends that waits for ten minutes.
		took time.Duration
	}{
		"a cluster that answers": {code: exitOK, took: 10 * time.Minute},
		"a restart of the API server": {
			from: 30 * time.Second, to: 50 * time.Second, code: exitOK, took: 10 * time.Minute,
			told: []string{"30s lost 5s", "50s back"},
		},
		"the cluster is gone": {
			from: 30 * time.Second, to: time.Hour, code: exitUnreachable, took: 85 * time.Second,
			told: []string{"30s lost 5s"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var told []string
				tell := func(what string) { told = append(told, fmt.Sprint(time.Since(began), " ", what)) }
				v := &heartbeat{onLost: func(_ phrase.Text, silent time.Duration) { tell(fmt.Sprint("lost ", silent)) }, onBack: func() { tell("back") }}
				v.ping = func(context.Context) error {
					if at := time.Since(began); at >= tc.from && at < tc.to {
						return refused
					}
					return nil
				}
				err := v.guardWatch(t.Context(), func(ctx context.Context) error {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(10 * time.Minute):
						return nil
					}
				})
				if exitCode(err) != tc.code || time.Since(began) != tc.took {
					t.Errorf("ended with %v after %v, want code %d after %v", err, time.Since(began), tc.code, tc.took)
				}
				if diff := cmp.Diff(tc.told, told); diff != "" {
					t.Errorf("told (-want +got):\n%s", diff)
				}
			})
		})
	}
}
