// Package agent is the node's side of the scheduler: it tells which cards there are and how they are, and sees to it that
// each container gets the cards that the scheduler chose for its pod, or does not start.
package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/cdi"
	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/agent/runtime"
)

// sweep is how often specs of pods that have ended are removed.
const sweep = 10 * time.Second

// MaxSlotsPerCard bounds [Options.SlotsPerCard]: kubelet keeps a device for each slot.
const MaxSlotsPerCard = 256

// Options are what an agent is started with.
type Options struct {
	NodeName string
	// KubeletDir is kubelet's folder, /var/lib/kubelet.
	KubeletDir string
	// CDIDir is the folder of CDI specs that the runtime watches, /var/run/cdi.
	CDIDir string
	// RuntimeEndpoint is the runtime's socket, unix:///run/containerd/containerd.sock.
	RuntimeEndpoint string
	Library         hardware.Library
	// SlotsPerCard is how many containers can share a card at the most, on nodes that share.
	SlotsPerCard int
	Unassigned   binding.Policy
	Log          *slog.Logger
}

// Run is the agent. It ends when ctx does, or with the error of what it cannot do without.
func Run(ctx context.Context, config *rest.Config, o *Options) error {
	for _, dir := range []string{o.CDIDir, filepath.Join(o.KubeletDir, "device-plugins")} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("making folders: %w", err)
		}
	}
	release, err := alone(ctx, o.CDIDir, o.Log)
	if err != nil {
		return err
	}
	defer release()
	starter, err := newStarter(config, o)
	if err != nil {
		return err
	}
	if err := starter.Folder.SweepTemporary(); err != nil {
		return fmt.Errorf("removing what an agent left before: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return starter.Pods.Run(ctx) })
	group.Go(func() error { return starter.Cards.Run(ctx) })
	group.Go(func() error { return starter.sweepUntil(ctx) })
	group.Go(func() error {
		p := &plugins{starter: starter, cards: starter.Cards, log: o.Log, changed: make(chan struct{})}
		return p.run(ctx)
	})
	return group.Wait()
}

func newStarter(config *rest.Config, o *Options) (*Starter, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	pods, err := NewPods(client, o.NodeName)
	if err != nil {
		return nil, err
	}
	cri, err := runtime.New(o.RuntimeEndpoint)
	if err != nil {
		return nil, err
	}
	return &Starter{
		DevicePlugins: filepath.Join(o.KubeletDir, "device-plugins"), Folder: cdi.Folder{Path: o.CDIDir}, Runtime: cri, Pods: pods,
		Cards: NewCards(o.Library, o.Log), Unassigned: o.Unassigned, Log: o.Log,
		Observe: func(time.Duration, *binding.Refusal) {},
	}, nil
}

func (s *Starter) sweepUntil(ctx context.Context) error {
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("Removing specs of pods that have ended", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(sweep):
		}
	}
}
