package queue

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

// TestThePastTellsWhenAJobStarts: behind a job that has no time limit a job's start is unknown, but for what the ledger knows of
// others. Where it does not answer, the queue is told as before, and why.
func TestThePastTellsWhenAJobStarts(t *testing.T) {
	e := newEnv(t)
	e.createNode(e.node("n1").GPUs(8, "A100-80G").Obj())
	e.expect(0, "", e.job("first", 8, 1), "create", "-f", "-")
	e.eventually("the first to be placed", func(ctx context.Context) bool {
		pods, err := client.CoreV1().Pods(e.namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(pods.Items) == 1 && pods.Items[0].Spec.NodeName != ""
	})
	e.expect(0, "", e.job("second", 8, 1), "create", "-f", "-")
	var broken atomic.Bool
	remote := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			_ = json.NewEncoder(w).Encode(ledger.Failure{Error: "its log says why"})
			return
		}
		var runs ledger.RunList
		for hours := range int64(50) {
			runs.Items = append(runs.Items, ledger.Run{Namespace: e.namespace, Pool: e.pool, GPUs: 8, Seconds: 3600 * (100 + hours)})
		}
		_ = json.NewEncoder(w).Encode(runs)
	}))
	t.Cleanup(remote.Close)
	asks := []string{"--ledger", remote.URL, "--ledger-insecure-skip-tls-verify"}
	queue := append([]string{"queue"}, asks...)

	e.comes("in 4d", queue...) // of 100 to 149 hours
	e.comes("(90%)", queue...)
	for _, key := range []string{`"earliest": "`, `"latest": "`, `"confidence": 0.9`} {
		e.comes(key, append(queue, "-o", "json")...)
	}
	e.comes("number 1 in pool "+e.pool+", behind 0 GPUs; starts between", append([]string{"why", "second"}, asks...)...)
	e.comes("unknown", "queue") // without a ledger
	broken.Store(true)
	e.comes("told by time limits alone", queue...)
	e.comes("unknown", queue...)
	e.comes("Job second is", append([]string{"why", "second"}, asks...)...)
}

// comes waits until a command says a text: the scheduler has to look at a job first. Nobody renews the node of the test but the test, as
// on a busy machine it may be taken for dead before the end.
func (e *env) comes(text string, args ...string) {
	e.Helper()
	e.eventually("gpuctl "+strings.Join(args, " ")+" to say "+text, func(ctx context.Context) bool {
		if err := e.renew(ctx, e.namespace+"-n1"); err != nil {
			return false
		}
		_, stdout, stderr := e.gpuctl("", args...)
		return strings.Contains(stdout+stderr, text)
	})
}

// renew has a node say that it is ready.
func (e *env) renew(ctx context.Context, name string) error {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	now := metav1.Now()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now}}
	_, err = client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}
