// Sign in with a token that is pasted. It goes to the server once, in the body of one request, and is kept nowhere in the page.
import { useSignal } from '@preact/signals';
import { asFailure, signIn, type Failure } from './api';
import { language, say } from './language';
import { Problem } from './parts';

const example = 'kubectl create token NAME -n NAMESPACE --duration 8h';

export function SignIn() {
  const busy = useSignal(false);
  const problem = useSignal<Failure | null>(null);
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    const field = (event.currentTarget as HTMLFormElement).elements.namedItem('token') as HTMLInputElement;
    busy.value = true;
    problem.value = null;
    try {
      await signIn(field.value.trim());
    } catch (failure) {
      problem.value = asFailure(failure);
    }
    field.value = '';
    busy.value = false;
  };
  return (
    <main id="main" class="sign-in" tabIndex={-1}>
      <div class="card">
        <img src="/console/icon.svg" alt="" width="40" height="40" />
        <h1>{say('console')}</h1>
        <p>{say('signInText')}</p>
        {isSecureContext ? <form onSubmit={send}>
          <label>{say('token')}<input name="token" type="password" required autocomplete="off" spellcheck={false} autofocus maxLength={8192} /></label>
          <button type="submit" class="primary" disabled={busy.value}>{say(busy.value ? 'signingIn' : 'signIn')}</button>
        </form> : <p class="notice" role="alert">{say('needsHTTPS')}</p>}
        {problem.value && <Problem problem={problem.value} />}
        <p class="lead">{say('signInHow')}</p>
        <pre class="code">{example}</pre>
        <p class="lead">{say('signInKept')}</p>
        <button type="button" class="text" onClick={() => { language.value = language.value === 'zh' ? 'en' : 'zh'; }}>{say('otherLanguage')}</button>
      </div>
    </main>
  );
}
