package cli

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/portforward"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

type openOptions struct {
	portForwardOptions
	noBrowser bool
}

func newOpenCmd(f *Factory) *cobra.Command {
	o := &openOptions{portForwardOptions: portForwardOptions{podTarget: podTarget{factory: f}}}
	cmd := &cobra.Command{
		Use:   "open JOB",
		Short: "Open a notebook, or what else a job serves, in the browser",
		Long: "Forward a free port of this machine to the port that a job serves, print the URL, and open it in the\n" +
			"browser. The URL of a notebook has its token, where the job's command or environment says it. The port\n" +
			"stays open until interrupted.",
		Example: "  gpuctl open lab\n  gpuctl open chat --no-browser",
		Args:    requireOneArg(phrase.Textf("the name of one job")),
		RunE:    func(cmd *cobra.Command, args []string) error { return runOpen(cmd.Context(), o, args[0]) },

		ValidArgsFunction: completeJobs(f),
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.address, "address", "localhost", "The address of this machine to listen on")
	cmd.Flags().BoolVar(&o.noBrowser, "no-browser", false, "Only print the URL")
	return cmd
}

func runOpen(ctx context.Context, o *openOptions, job string) error {
	client, err := o.factory.newKubernetesClient()
	if err != nil {
		return err
	}
	where, err := o.findContainer(ctx, client, job)
	if err != nil {
		return err
	}
	pod, err := client.CoreV1().Pods(where.namespace).Get(ctx, where.pod, metav1.GetOptions{})
	if err != nil {
		return phrase.Errorf("reading pod %s: %w", where.pod, err)
	}
	port, ok := servedPort(pod, where.container)
	if !ok {
		return usageErrorf("job %s serves no port: see gpuctl port-forward", job)
	}
	token, err := notebookToken(ctx, client, pod, where.container)
	if err != nil {
		o.factory.IO.printErr("warning: %v", err)
	}
	return o.forwardPorts(ctx, client, forwarding{
		where: where, ports: []string{":" + strconv.Itoa(int(port))}, out: o.factory.IO.ErrOut,
		ready: func(ports []portforward.ForwardedPort) { o.showURL(ctx, ports[0].Local, token) },
	})
}

// showURL prints the URL, and opens it in a browser if a person is at the terminal.
func (o *openOptions) showURL(ctx context.Context, port uint16, token string) {
	address := url.URL{Scheme: "http", Host: fmt.Sprintf("%s:%d", o.address, port), Path: "/"}
	if token != "" {
		address.RawQuery = url.Values{"token": {token}}.Encode()
	}
	fmt.Fprintln(o.factory.IO.Out, address.String())
	if o.noBrowser || !o.factory.IO.OutIsTerminal {
		return
	}
	if err := openBrowser(ctx, address.String()); err != nil {
		o.factory.IO.printErr("No browser could be opened (%v): open the URL by hand", err)
	}
}

// openBrowser opens a URL with the desktop's browser.
func openBrowser(ctx context.Context, address string) error {
	command := []string{"xdg-open", address}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open", address}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", address}
	}
	return exec.CommandContext(ctx, command[0], command[1:]...).Start()
}

// tokenArgument matches Jupyter's token on the command line, under the names of several versions.
var tokenArgument = regexp.MustCompile(`--(?:NotebookApp|ServerApp|IdentityProvider|LabApp)\.token=['"]?([^'"\s]+)`)

// envToken is the environment variable from which Jupyter reads its token.
const envToken = "JUPYTER_TOKEN"

// notebookToken finds the token of a notebook in the command and the environment of its container; "" if there is none.
func notebookToken(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, container string) (string, error) {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if c.Name != container {
			continue
		}
		for _, text := range append(append([]string{}, c.Command...), c.Args...) {
			if match := tokenArgument.FindStringSubmatch(text); match != nil {
				return match[1], nil
			}
		}
		for _, env := range c.Env {
			if env.Name == envToken {
				return envValue(ctx, client, pod.Namespace, env)
			}
		}
	}
	return "", nil
}

// envValue returns the value of a variable, which may be in a Secret.
func envValue(ctx context.Context, client kubernetes.Interface, namespace string, env corev1.EnvVar) (string, error) {
	if env.ValueFrom == nil || env.ValueFrom.SecretKeyRef == nil {
		return env.Value, nil
	}
	ref := env.ValueFrom.SecretKeyRef
	secret, err := client.CoreV1().Secrets(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return "", phrase.Errorf("reading the notebook's token: %w", err)
	}
	return string(secret.Data[ref.Key]), nil
}
