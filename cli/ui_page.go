package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/cli/screen"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// openPage is the output of a command while its page is open.
type openPage struct {
	action screen.Action
	text   *pageText
}

// isLive reports whether more output may come.
func (p *openPage) isLive() bool { return p.action.Do == screen.Logs }

func (u *ui) closePage() {
	u.endPage()
	u.page = nil
}

// openPage opens a page, and replaces an open one.
func (u *ui) openPage(action screen.Action) {
	u.closePage()
	if u.state.View() == screen.Queue {
		u.endView() // a hidden view is not read
	}
	ctx, end := context.WithCancel(u.ctx)
	page := &openPage{action: action, text: &pageText{changes: &u.changes}}
	u.page, u.endPage = page, end
	u.state = u.state.WithPage(screen.Page{Title: pageTitle(action).Localize(u.language), Live: page.isLive()})
	view, factory := u.state.View(), u.pageFactory(action.Row.Namespace, page.text)
	u.startReader(func() { writePage(ctx, factory, view, action) })
}

// pageTitle returns the title of a page.
func pageTitle(action screen.Action) phrase.Text {
	name := oneLine(action.Row.Name)
	switch action.Do {
	case screen.Why:
		return phrase.Textf("why %s", name)
	case screen.Logs:
		return phrase.Textf("logs %s", name)
	case screen.YAML:
		return phrase.Textf("yaml %s", name)
	case screen.Describe:
		return phrase.Textf("describe %s", name)
	}
	return phrase.Textf("help")
}

// pageFactory returns a factory for a command that writes to a page.
func (u *ui) pageFactory(namespace string, out io.Writer) *Factory {
	f, overrides := *u.factory, *u.factory.overrides
	f.overrides = &overrides
	if namespace != "" {
		overrides.Context.Namespace = namespace
	}
	color := u.factory.IO.Color
	f.IO = IOStreams{
		In: strings.NewReader(""), Out: escapeOutput(out, color), ErrOut: escapeOutput(out, false), OutIsTerminal: true,
		Width: u.state.Width(), ErrWidth: u.state.Width(), Color: color, Language: u.factory.IO.Language,
	}
	return &f
}

// uiTail is how many lines of a pod's earlier output are shown.
const uiTail = "1000"

// writePage writes the output of the page's command, and its error as the command would.
func writePage(ctx context.Context, f *Factory, view string, action screen.Action) {
	if action.Do == screen.Help {
		fmt.Fprintln(f.IO.Out, uiKeys().Localize(f.outputLanguage()))
		return
	}
	cmd := pageCommand(f, view, action)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.CompletionOptions.DisableDefaultCmd = true // a job may be named completion
	cmd.SetOut(f.IO.Out)
	cmd.SetErr(f.IO.ErrOut)
	err := cmd.ExecuteContext(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil && !errors.As(err, new(*quietError)):
		f.printError(errorMessage(err).Add(f.suggestObject(ctx, err)))
	case action.Do == screen.Logs:
		fmt.Fprintln(f.IO.ErrOut, phrase.Textf("(the job has ended, and its output)").Localize(f.outputLanguage()))
	}
}

// pageCommand returns the command whose output the page shows.
func pageCommand(f *Factory, view string, action screen.Action) *cobra.Command {
	name := action.Row.Name
	with := func(cmd *cobra.Command, args ...string) *cobra.Command {
		cmd.SetArgs(args)
		return cmd
	}
	asYAML := action.Do == screen.YAML
	describe := newDescribeJobCmd
	switch view {
	case screen.Nodes:
		describe = newDescribeNodeCmd
	case screen.Pools:
		describe = newDescribePoolCmd
	default:
		switch action.Do {
		case screen.Why:
			return with(newWhyCmd(f), name)
		case screen.Logs:
			return with(newLogsCmd(f), name, "--follow", "--tail", uiTail)
		case screen.YAML:
			return with(newExportCmd(f), action.Row.Kind+"/"+name)
		}
	}
	if asYAML {
		return with(describe(f), name, "-o", outputYAML)
	}
	return with(describe(f), name)
}
