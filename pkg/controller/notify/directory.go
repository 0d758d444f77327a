package notify

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/channel"
)

const (
	// directoryTTL is how long the channels that were read are cached.
	directoryTTL = 10 * time.Second
	// readTimeout bounds the read, for which all channels wait.
	readTimeout = 5 * time.Second
)

// Directory resolves channels to URLs. It reads them on demand: few jobs end per second, and no copy of a secret is kept for long.
type Directory struct {
	// Live reads from the API server.
	Live  client.Reader
	Clock clock.PassiveClock
	// OnRead, if set, gets the existing channels after each read.
	OnRead func(exists func(channel string) bool)

	mu    sync.Mutex
	read  time.Time
	allow map[string]string
	urls  map[string][]byte
}

// ResolveAddress returns the URL of a channel for the jobs of a namespace, or why there is none.
func (d *Directory) ResolveAddress(ctx context.Context, name, namespace string) (string, Outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.refreshChannels(ctx); err != nil {
		return "", Outcome{Why: "the channels could not be read", Again: true}
	}
	if why := channel.RefusalReason(d.allow, namespace, name); len(why) > 0 {
		return "", Outcome{Why: why.String()}
	}
	address := strings.TrimSpace(string(d.urls[name])) // files end with a line break
	if address == "" {
		return "", Outcome{Why: "the channel has no URL: administrators write it into the Secret kube-system/" + g8s.ChannelSecret, Unset: true}
	}
	if !isWebhook(address) {
		return "", Outcome{Why: "the URL of the channel is none that begins with https:// and names a host: administrators correct it in the Secret kube-system/" + g8s.ChannelSecret, Unset: true}
	}
	return address, Outcome{}
}

// isWebhook reports whether an address is an https URL that nobody can read in transit.
func isWebhook(address string) bool {
	at, err := url.Parse(address)
	return err == nil && at.Scheme == "https" && at.Hostname() != "" && at.User == nil
}

func (d *Directory) refreshChannels(ctx context.Context) error {
	if d.Clock.Since(d.read) < directoryTTL {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var policy corev1.ConfigMap
	at := types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: g8s.PolicyConfigMap}
	if err := d.Live.Get(ctx, at, &policy); client.IgnoreNotFound(err) != nil {
		return err
	}
	var secret corev1.Secret
	at.Name = g8s.ChannelSecret
	if err := d.Live.Get(ctx, at, &secret); client.IgnoreNotFound(err) != nil {
		return err
	}
	d.allow, d.urls, d.read = policy.Data, secret.Data, d.Clock.Now()
	if d.OnRead != nil {
		d.OnRead(func(name string) bool { _, there := d.allow[g8s.PolicyChannel+name]; return there })
	}
	return nil
}
