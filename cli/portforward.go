package cli

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

type portForwardOptions struct {
	podTarget
	address string
}

func newPortForwardCmd(f *Factory) *cobra.Command {
	o := &portForwardOptions{podTarget: podTarget{factory: f}}
	cmd := &cobra.Command{
		Use:   "port-forward JOB [[LOCAL:]REMOTE]...",
		Short: "Reach a port of a job from this machine",
		Long: "Reach a port of a job from this machine, until interrupted. Without ports it is the port that the job serves,\n" +
			"under the same number here; with :REMOTE a free one is chosen here.",
		Example: "  gpuctl port-forward chat\n  gpuctl port-forward chat 8080:8000\n  gpuctl port-forward qwen2-sft :6006",
		Args:    requireArgs(phrase.Textf("the name of one job")),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPortForward(cmd.Context(), o, args[0], args[1:])
		},
		ValidArgsFunction: completeJobs(f),
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.address, "address", "localhost", "The address of this machine to listen on")
	return cmd
}

func runPortForward(ctx context.Context, o *portForwardOptions, job string, ports []string) error {
	client, err := o.factory.newKubernetesClient()
	if err != nil {
		return err
	}
	where, err := o.findContainer(ctx, client, job)
	if err != nil {
		return err
	}
	if len(ports) == 0 {
		pod, err := client.CoreV1().Pods(where.namespace).Get(ctx, where.pod, metav1.GetOptions{})
		if err != nil {
			return phrase.Errorf("reading pod %s: %w", where.pod, err)
		}
		port, ok := servedPort(pod, where.container)
		if !ok {
			return usageErrorf("job %s serves no port: give one, such as gpuctl port-forward %s 6006", job, job)
		}
		ports = []string{strconv.Itoa(int(port))}
	}
	if err := checkPorts(ports); err != nil {
		return err
	}
	return o.forwardPorts(ctx, client, forwarding{where: where, ports: ports, out: o.factory.IO.Out})
}

// servedPort returns the first port that a container declares.
func servedPort(pod *corev1.Pod, container string) (int32, bool) {
	for _, c := range pod.Spec.Containers {
		if c.Name == container && len(c.Ports) > 0 {
			return c.Ports[0].ContainerPort, true
		}
	}
	return 0, false
}

func checkPorts(ports []string) error {
	for _, port := range ports {
		parts := strings.Split(port, ":")
		valid := len(parts) <= 2
		for i, part := range parts {
			number, err := strconv.ParseUint(part, 10, 16)
			free := part == "" && i == 0 && len(parts) == 2
			valid = valid && (free || err == nil && (number > 0 || i == 0 && len(parts) == 2))
		}
		if !valid {
			return usageErrorf("the port is %q, want REMOTE, LOCAL:REMOTE or :REMOTE", port)
		}
	}
	return nil
}

// forwarding is what to forward, and where to report it.
type forwarding struct {
	where containerRef
	ports []string
	out   io.Writer
	// ready, if not nil, is called with the local ports once they are open.
	ready func([]portforward.ForwardedPort)
}

// forwardPorts relays connections until ctx ends, which is not an error, or the pod does.
func (o *portForwardOptions) forwardPorts(ctx context.Context, client kubernetes.Interface, f forwarding) error {
	config, err := o.factory.config()
	if err != nil {
		return err
	}
	address := client.CoreV1().RESTClient().Post().Resource("pods").
		Namespace(f.where.namespace).Name(f.where.pod).SubResource("portforward").URL()
	dialer, err := newDialer(config, address)
	if err != nil {
		return phrase.Errorf("connecting to pod %s: %w", f.where.pod, err)
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{o.address}, f.ports, stop, ready, f.out, o.factory.IO.ErrOut)
	if err != nil {
		return usageErrorf("forwarding ports: %w", err)
	}
	cancel := context.AfterFunc(ctx, func() { close(stop) })
	defer cancel()
	if f.ready != nil {
		go func() {
			select {
			case <-ready:
				if ports, err := forwarder.GetPorts(); err == nil {
					f.ready(slices.Clone(ports))
				}
			case <-ctx.Done():
			}
		}()
	}
	if err := forwarder.ForwardPorts(); err != nil && ctx.Err() == nil {
		return phrase.Errorf("forwarding ports to pod %s: %w", f.where.pod, err)
	}
	return nil
}

// newDialer uses WebSocket, and falls back to SPDY if the server does not support it.
func newDialer(config *rest.Config, address *url.URL) (httpstream.Dialer, error) {
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	plain := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, address)
	socket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(address, config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(socket, plain, isNoWebSocket), nil
}
