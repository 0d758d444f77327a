package cli

import (
	"cmp"
	"context"
	"io"
	"os"
	"sync"

	"github.com/gdamore/tcell/v2"
	"github.com/spf13/cobra"
	"golang.org/x/text/encoding/unicode"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

type uiOptions struct {
	factory       *Factory
	allNamespaces bool
	// open opens the terminal.
	open func() (tcell.Screen, error)
}

// uiKeys describes the keys of the screen. The screen shows this text, too.
func uiKeys() phrase.Text {
	return phrase.Textf(`Keys, as k9s has them:
  1 2 3 4           jobs, the queue, nodes, pools; also :jobs :queue :nodes :pools (Tab completes)
  arrows, j k       go down and up; PgUp, PgDn, g and G go far
  Enter             why a job runs where it does, or does not; all about a node or a pool
  d                 describe
  w                 why, of a job
  l                 the output of a job, as it comes; G goes back to its end
  y                 the YAML that a job was submitted as; of a node or a pool as describe -o yaml
  /                 show only what has this text, also in what is open; Esc shows all
  0                 jobs of all namespaces, and of one again
  r                 read what is open again
  Esc               go back
  ?                 show these keys
  q, Ctrl-C         end it

No key changes anything in the cluster: jobs are paused, deleted and so on by the commands for it.`)
}

func newUICmd(f *Factory) *cobra.Command {
	o := &uiOptions{factory: f, open: openTerminal}
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Look at jobs, the queue, nodes, pools and logs on the whole terminal, live",
		Long: "Look at jobs, the queue, nodes, pools and logs on the whole terminal, live. What it shows is what get jobs,\n" +
			"queue, get nodes, get pools, why, describe, export and logs print. It needs a terminal; in a pipe\n" +
			"get jobs -w does the like.\n\n" + uiKeys().String() + "\n\n" +
			"When the cluster does not answer, the last line says so, what was read last stays, and it goes on by itself\n" +
			"when the cluster is back. NO_COLOR=1 leaves the colours out.",
		Example: "  gpuctl ui\n  gpuctl ui -n team-a\n  gpuctl ui -A",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runUI(cmd.Context(), o) },
	}
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Show the jobs of all namespaces")
	return cmd
}

func runUI(ctx context.Context, o *uiOptions) error {
	if !o.factory.IO.InIsTerminal || !o.factory.IO.OutIsTerminal {
		return usageErrorf("ui needs a terminal, to show and to be asked: use gpuctl get jobs -w, or gpuctl queue -w")
	}
	u, err := newUI(o)
	if err != nil {
		return err
	}
	terminal, err := o.open()
	if err == nil {
		err = terminal.Init()
	}
	if err != nil {
		return usageErrorf("ui cannot draw on this terminal (TERM=%s): %w\nUse gpuctl get jobs -w, or gpuctl queue -w", os.Getenv("TERM"), err)
	}
	defer terminal.Fini() // also on a panic: its message must be readable
	return u.runLoop(ctx, terminal)
}

// openTerminal opens the terminal of the process. The screen uses UTF-8 even if no locale says so, as in most containers.
func openTerminal() (tcell.Screen, error) {
	if name := os.Getenv("TERM"); name == "" || name == "dumb" {
		return nil, tcell.ErrTermNotFound
	}
	tcell.RegisterEncoding("US-ASCII", unicode.UTF8)
	tcell.SetEncodingFallback(tcell.EncodingFallbackUTF8)
	tty, err := tcell.NewStdIoTty()
	if err != nil {
		return nil, err
	}
	return tcell.NewTerminfoScreenFromTty(tty)
}

// newUI prepares the connection to the cluster without sending a request.
func newUI(o *uiOptions) (*ui, error) {
	f := *o.factory
	f.IO.ErrOut = escapeOutput(io.Discard, false) // nothing else may write to the screen
	f.config = sync.OnceValues(f.loadConfig)
	client, err := f.newKubernetesClient()
	if err != nil {
		return nil, err
	}
	reader, err := f.newReader()
	if err != nil {
		return nil, err
	}
	namespace, err := f.currentNamespace()
	if err != nil {
		return nil, err
	}
	config, err := f.clientConfig().RawConfig()
	if err != nil {
		return nil, f.configError(err)
	}
	u := &ui{factory: &f, client: client, reader: reader, namespace: namespace, language: f.outputLanguage(), readerPanic: make(chan string, 1)}
	u.context = cmp.Or(f.overrides.CurrentContext, config.CurrentContext, "-")
	u.all = o.allNamespaces
	return u, nil
}
