package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/cdi"
	"g8s.host/gpu-scheduler/pkg/agent/checkpoint"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// patience is how long the start of a container waits for what usually passes. kubelet waits for 30 s, and tries again
	// some ten seconds later.
	patience = 25 * time.Second
	// again is how often a start that waits looks again, beside when something is known to have changed.
	again = 200 * time.Millisecond
)

// Runtime is the container runtime's word on which pods have not ended, and which of their containers run.
type Runtime interface {
	Live(ctx context.Context) (map[types.UID]map[string]bool, error)
}

// Bound are the pods that the API server has bound to the node, and a channel that is closed when they are others.
type Bound interface {
	Known() (map[types.UID]binding.Pod, <-chan struct{})
}

// Starter writes down what containers get, just before they are created. It looks at everything afresh each time, and
// remembers nothing but what it wrote.
type Starter struct {
	// DevicePlugins is kubelet's folder of device plugins.
	DevicePlugins string
	Folder        cdi.Folder
	Runtime       Runtime
	Pods          Bound
	Cards         *Cards
	Fitness       *Fitness
	MPS           MPS
	Unassigned    binding.Policy
	Log           *slog.Logger
	Observe       func(took time.Duration, refusal *binding.Refusal)

	// mu lets one start look and write at a time: two that look together could both find a card free.
	mu sync.Mutex
}

// Start is a [kubelet.Start]. It waits for what usually passes.
func (s *Starter) Start(ctx context.Context, resource string, slots []string) error {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var told binding.Reason
	var before *binding.Refusal
	for {
		_, changed := s.Pods.Known()
		records, refusal := s.try(ctx, resource, slots)
		if refusal != nil && before != nil && ctx.Err() != nil {
			refusal = before // a look that was cut short says nothing of what was waited for
		}
		before = refusal
		if refusal == nil {
			s.bound(records, time.Since(begin))
			return nil
		}
		// A pod that was known and is no more was deleted by force: kubelet does not say so, and waits for the answer.
		gone := refusal.Reason == binding.UnknownPod && told != "" && told != binding.UnknownPod
		if refusal.Reason != told {
			s.Log.Warn("Cannot bind cards yet", "reason", refusal.Reason, "text", refusal.Text)
			told = refusal.Reason
		}
		if gone || !refusal.Passes() || !sleep(ctx, changed) {
			s.Observe(time.Since(begin), refusal)
			return status.Error(codes.FailedPrecondition, refusal.Text)
		}
	}
}

// bound takes note of what containers got.
func (s *Starter) bound(records []binding.Record, took time.Duration) {
	s.Observe(took, nil)
	for i := range records {
		record := &records[i]
		s.Log.Info("Bound cards", "pod", record.Namespace+"/"+record.PodName, "container", record.Container, "resource", record.Resource,
			"cards", record.UUIDs(), "took", took.String())
	}
}

// sleep waits until it is worth looking again. It returns false when there is no more time.
func sleep(ctx context.Context, changed <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-time.After(again):
	}
	return ctx.Err() == nil
}

func (s *Starter) try(ctx context.Context, resource string, slots []string) ([]binding.Record, *binding.Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if unfit, known, _ := s.Fitness.Now(); !known {
		return nil, &binding.Refusal{Reason: binding.Unreadable, Text: "the container runtime has not said what it can"}
	} else if unfit != "" {
		return nil, &binding.Refusal{Reason: binding.Unfit, Text: unfit}
	}
	situation, err := s.look(ctx, resource)
	if err != nil {
		return nil, &binding.Refusal{Reason: binding.Unreadable, Text: err.Error()}
	}
	outcome, refusal := situation.Decide(resource, slots)
	if refusal != nil {
		return nil, refusal
	}
	if err := s.record(&outcome); err != nil {
		return nil, &binding.Refusal{Reason: binding.Unwritable, Text: err.Error()}
	}
	return outcome.Write, nil
}

// record removes and writes what was decided.
func (s *Starter) record(outcome *binding.Outcome) error {
	for _, name := range outcome.Remove {
		if err := s.Folder.Remove(name); err != nil {
			return err
		}
	}
	for i := range outcome.Write {
		if err := s.write(&outcome.Write[i]); err != nil {
			return err
		}
	}
	return nil
}

// look gathers what is known, of the resources that are offered and of others that are asked for. The records come before the
// runtime's answer; see [binding.Situation].
func (s *Starter) look(ctx context.Context, also ...string) (*binding.Situation, error) {
	claims, err := s.Claims(also...)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // without it, kubelet has given nothing out, or has forgotten what it gave
		return nil, err
	}
	records, err := s.Folder.Records()
	if err != nil {
		return nil, err
	}
	live, err := s.Runtime.Live(ctx)
	if err != nil {
		return nil, err
	}
	pods, _ := s.Pods.Known()
	view, _ := s.Cards.Now()
	return &binding.Situation{Claims: claims, Pods: pods, Records: records, Live: live, Cards: view.Offered(), Unassigned: s.Unassigned}, nil
}

// Shared reports whether the agent before offered shares of cards, by kubelet's checkpoint: what the node's label says is
// not known before the API server has answered, and kubelet starts no container of a plugin that is not back.
func (s *Starter) Shared() bool {
	data, err := os.ReadFile(s.checkpoint())
	return err == nil && checkpoint.Registered(data, names.ResourceSharedGPU)
}

func (s *Starter) checkpoint() string { return filepath.Join(s.DevicePlugins, checkpoint.FileName) }

// Claims reads kubelet's checkpoint: the claims of the resources that are offered, and of others, such as one that was offered
// before.
func (s *Starter) Claims(also ...string) ([]checkpoint.Claim, error) {
	data, err := os.ReadFile(s.checkpoint())
	if err != nil {
		return nil, fmt.Errorf("reading kubelet's checkpoint: %w", err)
	}
	view, _ := s.Cards.Now()
	return checkpoint.Parse(data, cdi.Kind, append(view.Resources(), also...)...)
}

func (s *Starter) write(record *binding.Record) error {
	edits, err := s.Cards.Edits(record.UUIDs())
	if err != nil {
		return fmt.Errorf("finding what makes the cards usable: %w", err)
	}
	edits.Env = append(edits.Env, environment(record)...)
	if err := s.MPS.extend(&edits, record); err != nil {
		return err
	}
	return s.Folder.Write(record, &edits)
}

// Sweep removes the specs of pods that have ended.
func (s *Starter) Sweep(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	records, err := s.Folder.Records()
	if err != nil || len(records) == 0 {
		return err
	}
	live, err := s.Runtime.Live(ctx)
	if err != nil {
		return err
	}
	situation := binding.Situation{Records: records, Live: live}
	for _, record := range situation.Ended() {
		if err := s.Folder.Remove(record.Name); err != nil {
			return err
		}
		s.Log.Info("Freed cards", "pod", record.Namespace+"/"+record.PodName, "container", record.Container, "cards", record.UUIDs())
	}
	return nil
}

// environment is what a container is told of its cards, beside what the driver needs. NVIDIA's runtime must add none: an
// image that says NVIDIA_VISIBLE_DEVICES=all would see every card of the node.
func environment(record *binding.Record) []string {
	variables := []string{"NVIDIA_VISIBLE_DEVICES=void", variable(record.Resource) + "=" + strings.Join(record.All, ",")}
	if share := record.Devices[0].MemoryMiB; share > 0 {
		variables = append(variables, "G8S_GPU_MEMORY_MIB="+strconv.FormatInt(share, 10))
	}
	return variables
}

// variable is the name of the variable with the UUIDs: G8S_GPU_UUIDS, and G8S_MIG_1G_10GB_UUIDS for slices of 1g.10gb.
func variable(resource string) string {
	profile, ok := strings.CutPrefix(resource, names.ResourceMIGPrefix)
	if !ok {
		return "G8S_GPU_UUIDS"
	}
	return "G8S_MIG_" + strings.ToUpper(strings.NewReplacer(".", "_", "+", "_", "-", "_").Replace(profile)) + "_UUIDS"
}
