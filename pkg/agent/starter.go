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
	// startTimeout is how long the start of a container waits for transient problems. kubelet waits for 30 s, and retries some ten seconds later.
	startTimeout = 25 * time.Second
	// situationRetryDelay is the interval at which a waiting start checks again, beside known changes.
	situationRetryDelay = 200 * time.Millisecond
)

// Runtime lists the pods that have not ended by the container runtime, and their running containers.
type Runtime interface {
	LivePods(ctx context.Context) (map[types.UID]map[string]bool, error)
}

// PodCache lists the pods that the API server has bound to the node, with a channel that is closed when they change.
type PodCache interface {
	KnownPods() (map[types.UID]binding.Pod, <-chan struct{})
}

// Starter records what containers get, just before they are created. It reads the state anew each time, and remembers only what it wrote.
type Starter struct {
	// DevicePlugins is kubelet's folder of device plugins.
	DevicePlugins string
	Folder        cdi.Folder
	Runtime       Runtime
	Pods          PodCache
	GPUs          *GPUMonitor
	Fitness       *Fitness
	MPS           MPS
	Unassigned    binding.Policy
	Log           *slog.Logger
	Observe       func(took time.Duration, refusal *binding.Refusal)
	// Alone is closed when no other agent writes to the folder. nil is closed.
	Alone chan struct{}

	// mu serializes starts: two concurrent ones could both find a GPU free.
	mu sync.Mutex
}

// Start is a [kubelet.Start]. It waits for transient problems.
func (s *Starter) Start(ctx context.Context, resource string, slots []string) error {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var told binding.Reason
	var before *binding.Refusal
	for {
		_, changed := s.Pods.KnownPods()
		records, refusal := s.tryBind(ctx, resource, slots)
		if refusal != nil && before != nil && ctx.Err() != nil {
			refusal = before // an interrupted check does not show what was waited for
		}
		before = refusal
		if refusal == nil {
			s.recordBound(records, time.Since(begin))
			return nil
		}
		// A pod that was known and is gone was deleted by force: kubelet does not report that, and waits for the answer.
		gone := refusal.Reason == binding.UnknownPod && told != "" && told != binding.UnknownPod
		if refusal.Reason != told {
			s.Log.Warn("Cannot bind cards yet", "reason", refusal.Reason, "text", refusal.Text)
			told = refusal.Reason
		}
		if gone || !refusal.IsTransient() || !waitForChange(ctx, changed) {
			s.Observe(time.Since(begin), refusal)
			return status.Error(codes.FailedPrecondition, refusal.Text)
		}
	}
}

// recordBound records what containers received.
func (s *Starter) recordBound(records []binding.Record, took time.Duration) {
	s.Observe(took, nil)
	for i := range records {
		record := &records[i]
		s.Log.Info("Bound cards", "pod", record.Namespace+"/"+record.PodName, "container", record.Container, "resource", record.Resource,
			"cards", record.UUIDs(), "took", took.String())
	}
}

// waitForChange waits until a retry is useful. It returns false when time is up.
func waitForChange(ctx context.Context, changed <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-time.After(situationRetryDelay):
	}
	return ctx.Err() == nil
}

func (s *Starter) tryBind(ctx context.Context, resource string, slots []string) ([]binding.Record, *binding.Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isAlone() {
		return nil, &binding.Refusal{Reason: binding.Unreadable, Text: "the agent that this one replaces has not ended yet"}
	}
	if unfit, known, _ := s.Fitness.CurrentState(); !known {
		return nil, &binding.Refusal{Reason: binding.Unreadable, Text: "the container runtime has not said what it can"}
	} else if !unfit.IsZero() {
		return nil, &binding.Refusal{Reason: binding.Unfit, Text: unfit.Text}
	}
	situation, err := s.gatherSituation(ctx, resource)
	if err != nil {
		return nil, &binding.Refusal{Reason: binding.Unreadable, Text: err.Error()}
	}
	outcome, refusal := situation.Decide(resource, slots)
	if refusal != nil {
		return nil, refusal
	}
	if err := s.applyOutcome(&outcome); err != nil {
		return nil, &binding.Refusal{Reason: binding.Unwritable, Text: err.Error()}
	}
	return outcome.Write, nil
}

func (s *Starter) isAlone() bool {
	if s.Alone == nil {
		return true
	}
	select {
	case <-s.Alone:
		return true
	default:
		return false
	}
}

// applyOutcome removes and writes what was decided.
func (s *Starter) applyOutcome(outcome *binding.Outcome) error {
	for _, name := range outcome.Remove {
		if err := s.Folder.Remove(name); err != nil {
			return err
		}
	}
	for i := range outcome.Write {
		if err := s.writeSpec(&outcome.Write[i]); err != nil {
			return err
		}
	}
	return nil
}

// gatherSituation gathers the current state, for the offered resources and for the requested ones. The records come before the runtime's answer; see
// [binding.Situation].
func (s *Starter) gatherSituation(ctx context.Context, also ...string) (*binding.Situation, error) {
	claims, err := s.ReadClaims(also...)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // without it, kubelet has allocated nothing, or has forgotten what it allocated
		return nil, err
	}
	records, err := s.Folder.ReadRecords()
	if err != nil {
		return nil, err
	}
	live, err := s.Runtime.LivePods(ctx)
	if err != nil {
		return nil, err
	}
	pods, _ := s.Pods.KnownPods()
	view, _ := s.GPUs.CurrentView()
	return &binding.Situation{Claims: claims, Pods: pods, Records: records, Live: live, GPUs: view.OfferedGPUs(), Unassigned: s.Unassigned}, nil
}

// WasShared reports whether the previous agent offered shares of GPUs, by kubelet's checkpoint. The node's label is not known before the API server has
// answered, and kubelet starts no container of a plugin that has not returned.
func (s *Starter) WasShared() bool {
	data, err := os.ReadFile(s.checkpointPath())
	return err == nil && checkpoint.IsRegistered(data, names.ResourceSharedGPU)
}

func (s *Starter) checkpointPath() string { return filepath.Join(s.DevicePlugins, checkpoint.FileName) }

// ReadClaims reads kubelet's checkpoint: the claims of the offered resources, and of others, such as one that was offered before.
func (s *Starter) ReadClaims(also ...string) ([]checkpoint.Claim, error) {
	data, err := os.ReadFile(s.checkpointPath())
	if err != nil {
		return nil, fmt.Errorf("reading kubelet's checkpoint: %w", err)
	}
	view, _ := s.GPUs.CurrentView()
	return checkpoint.Parse(data, cdi.Kind, append(view.Resources(), also...)...)
}

func (s *Starter) writeSpec(record *binding.Record) error {
	edits, err := s.GPUs.Edits(record.UUIDs())
	if err != nil {
		return fmt.Errorf("finding what makes the cards usable: %w", err)
	}
	edits.Env = append(edits.Env, containerEnv(record)...)
	if err := s.MPS.addMPSEdits(&edits, record); err != nil {
		return err
	}
	return s.Folder.Write(record, &edits)
}

// SweepEnded removes the specs of pods that have ended.
func (s *Starter) SweepEnded(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	records, err := s.Folder.ReadRecords()
	if err != nil || len(records) == 0 {
		return err
	}
	live, err := s.Runtime.LivePods(ctx)
	if err != nil {
		return err
	}
	situation := binding.Situation{Records: records, Live: live}
	for _, record := range situation.EndedRecords() {
		if err := s.Folder.Remove(record.Name); err != nil {
			return err
		}
		s.Log.Info("Freed cards", "pod", record.Namespace+"/"+record.PodName, "container", record.Container, "cards", record.UUIDs())
	}
	return nil
}

// containerEnv returns a container's variables for its GPUs, in addition to the driver's. NVIDIA's runtime must add no GPU: an image with
// NVIDIA_VISIBLE_DEVICES=all would see every GPU of the node.
func containerEnv(record *binding.Record) []string {
	variables := []string{"NVIDIA_VISIBLE_DEVICES=void", uuidVariable(record.Resource) + "=" + strings.Join(record.All, ",")}
	if share := record.Devices[0].MemoryMiB; share > 0 {
		variables = append(variables, "G8S_GPU_MEMORY_MIB="+strconv.FormatInt(share, 10))
	}
	return variables
}

// uuidVariable is the name of the variable with the UUIDs: G8S_GPU_UUIDS, and G8S_MIG_1G_10GB_UUIDS for slices of 1g.10gb.
func uuidVariable(resource string) string {
	profile, ok := strings.CutPrefix(resource, names.ResourceMIGPrefix)
	if !ok {
		return "G8S_GPU_UUIDS"
	}
	return "G8S_MIG_" + strings.ToUpper(strings.NewReplacer(".", "_", "+", "_", "-", "_").Replace(profile)) + "_UUIDS"
}
