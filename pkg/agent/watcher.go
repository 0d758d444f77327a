package agent

import (
	"context"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/cdi"
	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/agent/procs"
	"g8s.host/gpu-scheduler/pkg/agent/shares"
)

const (
	// usageInterval is the interval at which the use of shared GPUs is compared with the shares.
	usageInterval = 2 * time.Second
	// measureEvery is how often the use of the other devices is queried: once in so many rounds.
	measureEvery = 5
)

// OverrunPolicy is the policy for pods that use more memory of a GPU than their share.
type OverrunPolicy string

const (
	// Warn reports them with an event on the pod.
	Warn OverrunPolicy = "warn"
	// End also kills the process with the most memory, if the pod was over its share in two checks in a row.
	End OverrunPolicy = "end"
)

// usageWatcher observes how much of shared GPUs each process uses. Without MPS nothing enforces a share; the watcher detects overruns.
type usageWatcher struct {
	folder  cdi.Folder
	library hardware.Library
	policy  OverrunPolicy
	events  record.EventRecorder
	metrics *Metrics
	log     *slog.Logger
	// podOf and kill are Linux.
	podOf func(pid int) (types.UID, error)
	kill  func(pid int) error

	// before are the pods that were over their share in the last check.
	before map[types.UID]bool
	// looks counts.
	looks int
}

func newUsageWatcher(o *Options, folder cdi.Folder, events record.EventRecorder, metrics *Metrics) *usageWatcher {
	return &usageWatcher{
		folder: folder, library: o.Library, policy: o.Overruns, events: events, metrics: metrics, log: o.Log,
		podOf: func(pid int) (types.UID, error) { return procs.FindPod(procs.Root, pid) },
		kill:  func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) },
	}
}

func (w *usageWatcher) runLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(usageInterval):
		}
		if err := w.checkOnce(); err != nil {
			w.log.Warn("Asking who uses the cards", "error", err)
		}
	}
}

// checkOnce compares once.
func (w *usageWatcher) checkOnce() error {
	records, err := w.folder.ReadRecords()
	if err != nil {
		return err
	}
	w.metrics.setHeldDevices(records)
	all := w.looks%measureEvery == 0
	w.looks++
	uses, err := w.readProcessUse(records, all)
	if all {
		w.metrics.setPodUse(records, uses)
	}
	over := map[types.UID]bool{}
	for _, overrun := range shares.FindOverruns(records, uses) {
		over[overrun.Pod] = true
		w.reportOverrun(&overrun)
		if w.policy == End && w.before[overrun.Pod] {
			w.killLargestProcess(&overrun)
		}
	}
	w.before = over
	return err
}

// readProcessUse returns the use of the GPUs that are shared, or of all that are held. A GPU that does not answer does not hide the others.
func (w *usageWatcher) readProcessUse(records []binding.Record, all bool) (uses []shares.Use, failure error) {
	seen := map[string]bool{}
	for i := range records {
		for _, device := range records[i].Devices {
			if device.MemoryMiB == 0 && !all || seen[device.UUID] {
				continue
			}
			seen[device.UUID] = true
			processes, err := w.library.Processes(device.UUID)
			if err != nil {
				failure = fmt.Errorf("asking who uses card %s: %w", device.UUID, err)
				continue
			}
			for _, process := range processes {
				if pod, err := w.podOf(process.PID); err == nil { // else it has ended
					uses = append(uses, shares.Use{GPUUUID: device.UUID, PID: process.PID, Pod: pod, UsedMiB: process.UsedMiB})
				}
			}
		}
	}
	return uses, failure
}

// reportOverrun writes an event on the pod the first time it is found over its share.
func (w *usageWatcher) reportOverrun(o *shares.Overrun) {
	if w.before[o.Pod] {
		return
	}
	w.metrics.overruns.Inc()
	w.log.Warn("A pod uses more of a card than its share", "pod", o.Namespace+"/"+o.Name, "card", o.GPUUUID, "usedMiB", o.UsedMiB, "shareMiB", o.ShareMiB)
	w.writeEvent(o, "GPUShareExceeded", "the pod uses %d MiB of card %s, and its share is %d MiB", o.UsedMiB, o.GPUUUID, o.ShareMiB)
}

// killLargestProcess kills the process with the most memory. It first checks again that the process id still belongs to the pod.
func (w *usageWatcher) killLargestProcess(o *shares.Overrun) {
	pid := o.PIDs[0]
	if pod, err := w.podOf(pid); err != nil || pod != o.Pod {
		return
	}
	if err := w.kill(pid); err != nil {
		w.log.Warn("Ending a process over its share", "pod", o.Namespace+"/"+o.Name, "pid", pid, "error", err)
		return
	}
	w.writeEvent(o, "GPUShareEnforced", "a process of the pod was ended: the pod used %d MiB of card %s, and its share is %d MiB", o.UsedMiB, o.GPUUUID, o.ShareMiB)
}

func (w *usageWatcher) writeEvent(o *shares.Overrun, reason, format string, args ...any) {
	pod := &corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: o.Namespace, Name: o.Name, UID: o.Pod}
	w.events.Eventf(pod, corev1.EventTypeWarning, reason, format, args...)
}
