package plugins_test

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/plugins"
)

// sluggish is a filter that takes long.
type sluggish struct{}

func (sluggish) Name() string { return "Sluggish" }

func (sluggish) Filter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status {
	time.Sleep(150 * time.Millisecond)
	return nil
}

// TestSlowAttemptsAreLogged: an attempt of more than 100 ms leaves the line that the runbooks look for, with its pod and
// the part that took long, at the verbosity with which the scheduler is installed.
func TestSlowAttemptsAreLogged(t *testing.T) {
	deployment, err := manifests.FS.ReadFile("scheduler/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	verbosity := regexp.MustCompile(`(?m)^ +- -v=(\d)$`).FindSubmatch(deployment)
	if verbosity == nil {
		t.Fatal("manifests/scheduler/deployment.yaml does not say how much is logged")
	}
	log := captureLog(t, string(verbosity[1]))
	c := newClusterWith(t, frameworkruntime.Registry{"Sluggish": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return sluggish{}, nil
	}}, gpuNode("a", "pcie"), gpuNode("b", "pcie"))
	plugins.Wrap(c.scheduler, plugins.Options{})
	if _, err := c.try(pod("a-slow-pod", "1", "1").Obj()); err != nil {
		t.Fatal(err)
	}
	said := log()
	for _, want := range []string{`Trace\[\d+\]: "Scheduling" .*name:a-slow-pod`, `Trace\[\d+\]: ---"Computing predicates done"`} {
		if !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("nothing in the log is like %s:\n%s", want, said)
		}
	}
	page, err := os.ReadFile("../docs/runbooks/GPUSchedulingLatencyHigh.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, quoted := range []string{`grep 'Trace\['`, "`Trace[...]: \"Scheduling\"`", "`Computing predicates done`"} {
		if !strings.Contains(string(page), quoted) {
			t.Errorf("the runbook does not look for %s", quoted)
		}
	}
}

// captureLog has klog write into memory, with a verbosity, until the returned function is called for what it wrote.
func captureLog(t *testing.T, verbosity string) func() string {
	t.Helper()
	state := klog.CaptureState()
	t.Cleanup(state.Restore)
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	for name, value := range map[string]string{"v": verbosity, "logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	klog.SetOutput(&log)
	return func() string {
		klog.Flush()
		klog.SetOutput(io.Discard) // from now on nobody writes what is read here
		return log.String()
	}
}
