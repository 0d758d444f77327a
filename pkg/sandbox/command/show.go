package command

import (
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/sandbox"
)

func newKubeconfigCmd(p *location) *cobra.Command {
	return &cobra.Command{
		Use:     "kubeconfig",
		Short:   "Print the path of the administrator's kubeconfig",
		Example: "  export KUBECONFIG=$(gpu-sandbox kubeconfig)",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, err := p.readState()
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), st.Kubeconfig)
			return nil
		},
	}
}

func newEnvCmd(p *location) *cobra.Command {
	return &cobra.Command{
		Use:     "env",
		Short:   "Print what to export for gpuctl and kubectl to find the cluster and its ledger",
		Example: `  eval "$(gpu-sandbox env)"`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, err := p.readState()
			if err != nil {
				return err
			}
			writeExports(cmd.OutOrStdout(), st, "")
			return nil
		},
	}
}

// writeExports writes lines for a shell, each behind an indent.
func writeExports(out io.Writer, st state, indent string) {
	for _, variable := range []struct{ name, value string }{
		{"KUBECONFIG", st.Kubeconfig}, {"GPUCTL_LEDGER", st.Ledger}, {"GPUCTL_LEDGER_CA", st.LedgerCA},
	} {
		if variable.value != "" {
			fmt.Fprintf(out, "%sexport %s=%s\n", indent, variable.name, variable.value)
		}
	}
}

// writeConsole tells where the console is, and how to get a token for it. It prints no token: what is printed is kept in logs.
func writeConsole(out io.Writer, st state) {
	i := slices.IndexFunc(st.Components, func(c component) bool { return c.Name == sandbox.ServerName })
	if i < 0 {
		return
	}
	fmt.Fprintf(out, "\nThe console is at https://127.0.0.1:%d/console/, with a certificate that your browser does not know. Sign in with\n\n"+
		"  kubectl create token %s --duration 8h\n", st.Components[i].Port, sandbox.ConsoleAccount)
}

func newLogsCmd(p *location) *cobra.Command {
	return &cobra.Command{
		Use:   "logs [component]",
		Short: "Print the log of a component, or list the logs",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, err := p.readState()
			if err != nil {
				return err
			}
			logs := slices.Concat(st.Components, []component{{Name: "supervisor", Log: p.logPath()}})
			if len(args) == 0 {
				return listLogs(cmd.OutOrStdout(), logs)
			}
			if !slices.ContainsFunc(logs, func(c component) bool { return c.Name == args[0] }) {
				return fmt.Errorf("there is no component %q: %s lists them", args[0], p.commandText("logs"))
			}
			return printLog(cmd.OutOrStdout(), logs, args[0])
		},
	}
}

func listLogs(out io.Writer, logs []component) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "COMPONENT\tLOG")
	for _, c := range logs {
		fmt.Fprintf(w, "%s\t%s\n", c.Name, c.Log)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the list: %w", err)
	}
	return nil
}

func printLog(out io.Writer, logs []component, name string) error {
	for _, c := range logs {
		if c.Name != name {
			continue
		}
		f, err := os.Open(c.Log)
		if err != nil {
			return fmt.Errorf("opening the log of %s: %w", name, err)
		}
		defer func() { _ = f.Close() }()
		if _, err := io.Copy(out, f); err != nil {
			return fmt.Errorf("printing the log of %s: %w", name, err)
		}
		return nil
	}
	return nil
}
