// Package node shows on a real kubelet and containerd that containers get the cards that the scheduler chose for them, and
// no others: read from inside each container, by the program gpu-probe. Cards do not exist; all else does. The tests need a
// machine that can run a real node, and are skipped with the reason where it cannot.
package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

var (
	containers = flag.Int("containers", 60, "how many containers the waves start")
	outages    = flag.Int("outages", 1, "how often agent, kubelet and containerd are each killed, and as often stopped, during a wave")
	upgrades   = flag.Int("upgrades", 8, "how often the agent is replaced while pods come and go, two times in a row each")
	rivals     = flag.Int("rivals", 2, "how often another device plugin comes and goes")
	pause      = flag.Duration("pause", 10*time.Second, "the time between outages: kubelet tries things again after 10 s")
	rounds     = flag.Int("rounds", 3, "how many rounds of eight pods the guessing plugin is asked for")
	crowd      = flag.Int("crowd", 10, "how many pods without cards are on the node while starts are timed")
	starters   = flag.Int("starters", 16, "how many containers are started to time them")
	long       = flag.Bool("long", false, "also what takes minutes, or waits for kubelet's long pauses: outages of each part, and what is compared with it")
	idle       = flag.Bool("idle", false, "hold the agent to its times also where the machine does something else")
	seed       = flag.Uint64("seed", 1, "seed of the waves")
)

// pool is the pool of the real node.
const pool = "real-pool"

// The cluster that all tests share, and its node.
var (
	cluster *sandbox.Sandbox
	bed     *realnode.Node
	client  kubernetes.Interface
	inside  *reports
	cannot  error // why there is none
)

func TestMain(m *testing.M) {
	flag.Parse()
	if cannot = fit(); cannot != nil {
		fmt.Fprintf(os.Stderr, "\n*** NOTHING IS TESTED ON A REAL NODE: %v\n\n", cannot)
		os.Exit(m.Run())
	}
	options := sandbox.Options{ControllerManager: true, Kwok: true, RealKubelets: true}
	os.Exit(sandboxtest.Main(m, options, start))
}

// fit says why no real node can be started here.
func fit() error {
	if testing.Short() {
		return errors.New("it takes long: make test-all runs it")
	}
	if err := realnode.Check(os.TempDir()); err != nil {
		return err
	}
	tools, err := sandbox.FindTools()
	if err != nil {
		return err
	}
	return realnode.CheckTools(tools)
}

func start(ctx context.Context, s *sandbox.Sandbox) (err error) {
	cluster = s
	if client, err = kubernetes.NewForConfig(s.RESTConfig()); err != nil {
		return err
	}
	if err := s.InstallScheduler(ctx); err != nil {
		return err
	}
	if _, err := s.StartScheduler(ctx, sandbox.SchedulerOptions{}); err != nil {
		return err
	}
	began := time.Now()
	bed, err = realnode.Start(ctx, s, realnode.Options{
		Labels: map[string]string{g8s.LabelPool: pool}, GPUs: realnode.DefaultGPUs(),
	})
	if err != nil {
		return err
	}
	if took := time.Since(began); took > bounds.Of(time.Minute) {
		return fmt.Errorf("the real node took %s to start, want a minute at the most", took)
	}
	inside, err = readReports(bed)
	return errors.Join(err, settle(ctx))
}

// needNode skips a test where no real node runs.
func needNode(t *testing.T) {
	t.Helper()
	if cannot != nil {
		t.Skip(cannot)
	}
}

// needTime is [needNode] for a test that is a part of `make test-node` alone.
func needTime(t *testing.T) {
	t.Helper()
	if !*long {
		t.Skip("it takes long: give -long, as make test-node does")
	}
	needNode(t)
}
