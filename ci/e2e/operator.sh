#!/usr/bin/env bash
# The starter's operator from its template to its removal, on a throwaway cluster.
#
#   ci/e2e/operator.sh local NAME     an embedded control plane of its own; pods run as processes
#   ci/e2e/operator.sh kind NAME      the cluster of that name; KUBECONFIG points there
#   ci/e2e/operator.sh k3d NAME       the same
#
# Checked in turn: the image builds (not local); its own manifests install it; the mutating webhook
# marks, the validating one refuses, a v1alpha1 object is converted; the owned ConfigMap and the
# status are written; deletion runs the finalizer; one of two replicas holds the Lease; a killed
# leader is replaced; a certificate is renewed, and the previous release upgraded, without a failed
# call meanwhile; uninstall leaves nothing. The previous release is the newest tag v*; before the
# first one, it is an image of this release with another certificate lifetime.
set -euo pipefail
cd "$(dirname "$0")/../.."
ROOT=$PWD
MODE=${1:-} CLUSTER=${2:-}
case "$MODE" in local | kind | k3d) ;; *) MODE='' ;; esac
if [[ -z $MODE || -z $CLUSTER ]]; then
    sed -n '4,6s/^#   //p' "$0" >&2
    exit 2
fi

NAME=greeting-operator
NAMESPACE=$NAME
PLAY=greeting-e2e
SECRET=$NAME-webhook-certificate
IMAGE=rws-starter-operator:e2e
RENEWING=rws-starter-operator:e2e-renewing
PREVIOUS=rws-starter-operator:e2e-previous
LIFE_SECONDS=90 # of the renewing image's certificate: renewed after two thirds
TAKEOVER_SECONDS=25
PYTHON=$ROOT/.venv/bin/python
export PATH=$ROOT/.venv/bin:$PATH
export PYTHONDONTWRITEBYTECODE=1

WORK=$(mktemp -d "${TMPDIR:-/tmp}/rws-e2e-XXXXXX")
CURRENT_STEP="starting"
NODE_PID='' CALLS_PID=''

say() { printf 'e2e: %s\n' "$*"; }
step() { CURRENT_STEP=$* && say "$*"; }
ok() { say "  ok: $* (${SECONDS} s)"; }
fail() { say "  not so: $*" >&2 && exit 1; }

finish() {
    local code=$?
    trap - EXIT
    set +e
    [[ -n $CALLS_PID ]] && kill "$CALLS_PID" 2>/dev/null
    if ((code)); then
        echo "FAIL: $CURRENT_STEP"
        kubectl -n "$NAMESPACE" get pods,events 2>&1 | tail -n 30
        kubectl -n "$PLAY" get events 2>&1 | tail -n 30
        show_logs 2>&1 | tail -n 60
    fi
    clean_up
    [[ -d $WORK/checkout ]] && git worktree remove --force "$WORK/checkout"
    rm -rf "$WORK"
    exit "$code"
}

show_logs() {
    if [[ $MODE == local ]]; then
        tail -n 30 "$WORK"/node/*.log
    else
        kubectl -n "$NAMESPACE" logs --prefix --tail=60 -l "app.kubernetes.io/name=$NAME"
    fi
}

clean_up() {
    if [[ $MODE == local ]]; then
        [[ -n $NODE_PID ]] && kill "$NODE_PID" 2>/dev/null && wait "$NODE_PID" 2>/dev/null
        return
    fi
    kubectl delete --ignore-not-found --wait=false \
        "validatingwebhookconfiguration/$NAME" "mutatingwebhookconfiguration/$NAME" \
        "clusterrole/$NAME" "clusterrolebinding/$NAME" "namespace/$NAMESPACE" "namespace/$PLAY" \
        "crd/greetings.example.com" >/dev/null
}

# Tries a command until it succeeds.
eventually() {
    local seconds=$1 end=$((SECONDS + $1))
    shift
    until "$@" >"$WORK/last" 2>&1; do
        ((SECONDS < end)) || fail "'$*' within $seconds s: $(tail -n 3 "$WORK/last")"
        sleep 0.3
    done
}

# --- the cluster -----------------------------------------------------------------------------

start_local() {
    "$PYTHON" -m rws_operator.testing # where the programs must be built, that is shown
    mkdir "$WORK/node"
    "$PYTHON" ci/e2e/local_node.py run "$WORK/node" --image "$IMAGE=$WORK/current/$NAME" \
        --image "$RENEWING=$WORK/renewing/$NAME" --image "$PREVIOUS=$WORK/previous/$NAME" &
    NODE_PID=$!
    until [[ -f $WORK/node/kubeconfig ]]; do
        kill -0 "$NODE_PID" 2>/dev/null || fail "the control plane has ended"
        sleep 0.3
    done
    export KUBECONFIG=$WORK/node/kubeconfig
}

check_throwaway() {
    local context
    context=$(kubectl config current-context)
    [[ $context == "$MODE-$CLUSTER" ]] || fail "the current context is $context, not $MODE-$CLUSTER"
}

load_image() {
    if [[ $MODE == kind ]]; then
        kind load docker-image "$1" --name "$CLUSTER"
    else
        k3d image import "$1" --cluster "$CLUSTER"
    fi
}

# --- the operator ----------------------------------------------------------------------------

# Makes the project that an image holds, from the templates of a checkout.
project() {
    local folder=$1 checkout=$2
    "$ROOT/.venv/bin/rws-operator" new "$NAME" --no-input --group example.com --kind Greeting \
        --runtime "$checkout" --output-dir "$folder" >/dev/null
}

build() {
    (cd "$1" && make lock && make image IMAGE="$2") >"$WORK/build.log" 2>&1 ||
        fail "building $2: $(tail -n 20 "$WORK/build.log")"
    load_image "$2"
}

manifests() { # IMAGE FOLDER
    (cd "$2" && "$(python_of "$2")" -m app --manifests --image "$1" 2>/dev/null)
}

python_of() { if [[ -x $1/.venv/bin/python ]]; then echo "$1/.venv/bin/python"; else echo "$PYTHON"; fi; }

service_stand_in() {
    if [[ $MODE == local ]]; then
        "$PYTHON" "$ROOT/ci/e2e/local_node.py" stand-in "$WORK/node"
    else
        cat
    fi
}

install() { # IMAGE FOLDER
    manifests "$1" "$2" | service_stand_in | kubectl apply -f - >/dev/null
    kubectl -n "$NAMESPACE" rollout status "deployment/$NAME" --timeout=180s >/dev/null
}

holder() { kubectl -n "$NAMESPACE" get lease "$NAME" -o "jsonpath={.spec.holderIdentity}"; }

kill_pod() {
    if [[ $MODE == local ]]; then
        kill -9 "$(cat "$WORK/node/$1.pid")"
    else
        kubectl -n "$NAMESPACE" delete pod "$1" --force --grace-period=0 >/dev/null 2>&1
    fi
}

certificate() { kubectl -n "$NAMESPACE" get secret "$SECRET" -o "jsonpath={.data.tls\.crt}"; }

greeting() { # NAME MESSAGE
    printf '{apiVersion: example.com/v1, kind: Greeting, metadata: {name: "%s", namespace: %s}, spec: {message: "%s"}}\n---\n' \
        "$1" "$PLAY" "$2"
}

# --- what is seen ----------------------------------------------------------------------------

field() { kubectl -n "$PLAY" get greeting "$1" -o "jsonpath={$2}"; }
is_ready() { [[ $(field "$1" .status.ready) == true ]]; }
says() { [[ $(kubectl -n "$PLAY" get configmap "$1-greeting" -o "jsonpath={.data.message}") == "$2" ]]; }
is_gone() { [[ -z $(kubectl "$@" --ignore-not-found -o name) ]]; }
leads_another() { local now && now=$(holder) && [[ -n $now && $now != "$1" ]]; }
has_other_certificate() { local now && now=$(certificate) && [[ -n $now && $now != "$1" ]]; }

# Creates, as a dry run, through both webhooks and counts what fails, until it is stopped.
start_calls() {
    : >"$WORK/failed" && : >"$WORK/called"
    (
        while :; do
            greeting steady "still there" | kubectl create --dry-run=server -f - >/dev/null \
                2>>"$WORK/failed" && echo >>"$WORK/called"
            sleep 0.1
        done
    ) &
    CALLS_PID=$!
}

end_calls() {
    kill "$CALLS_PID" && wait "$CALLS_PID" 2>/dev/null || true
    CALLS_PID=''
    local called
    called=$(wc -l <"$WORK/called")
    [[ ! -s $WORK/failed ]] || fail "calls failed $1: $(sort "$WORK/failed" | uniq -c | head -n 5)"
    ((called > 10)) || fail "only $called calls were made $1"
    ok "$called calls $1, none failed"
}

# --- the checks ------------------------------------------------------------------------------

check_images() {
    step "the starter's image builds"
    build "$WORK/current/$NAME" "$IMAGE"
    build "$WORK/renewing/$NAME" "$RENEWING"
    build "$WORK/previous/$NAME" "$PREVIOUS"
    ok "three images"
}

check_upgrade() {
    step "the previous release is installed, and upgraded"
    install "$PREVIOUS" "$WORK/previous/$NAME"
    kubectl create namespace "$PLAY" >/dev/null
    greeting old "from before" >"$WORK/old.yaml"
    eventually 60 kubectl apply -f "$WORK/old.yaml"
    eventually 30 is_ready old
    start_calls
    install "$IMAGE" "$WORK/current/$NAME"
    sleep 8 # the replicas that left answer for the lag still, and drain
    end_calls "through the upgrade"
    kubectl -n "$PLAY" patch greeting old --type=merge -p '{"spec":{"message":"and now"}}' >/dev/null
    eventually 30 says old "and now"
    ok "what was there is followed by the new release"
}

check_admission() {
    step "the webhooks are called"
    greeting first "hello" | kubectl apply -f - >/dev/null
    [[ -n $(field first '.metadata.annotations.example\.com/created-by') ]] ||
        fail "the mutating webhook noted no author"
    ok "the mutating webhook noted who created it"
    for number in $(seq 100); do greeting "many-$number" "one of many"; done >"$WORK/many.yaml"
    kubectl create -f "$WORK/many.yaml" >"$WORK/many" 2>&1 && fail "more than the limit were created"
    grep -q "of 100 already" "$WORK/many" || fail "not refused by its words: $(tail -n 2 "$WORK/many")"
    ok "the validating webhook refused what was one too many"
    message=$(kubectl -n "$PLAY" get greetings.v1alpha1.example.com first -o "jsonpath={.spec.text}")
    [[ $message == hello ]] || fail "at v1alpha1 it says '$message'"
    ok "v1alpha1 can be read"
}

check_reconcile() {
    step "the controller reconciles"
    eventually 30 says first hello
    ok "the owned ConfigMap says what the spec says"
    eventually 30 is_ready first
    kubectl -n "$PLAY" wait greetings --all --for=condition=Ready --timeout=60s >/dev/null
    ok "every status says so"
    kubectl -n "$PLAY" delete configmap first-greeting >/dev/null
    eventually 30 says first hello
    ok "a deleted ConfigMap came back"
    kubectl -n "$PLAY" delete greetings --all --timeout=60s >/dev/null
    eventually 90 is_gone -n "$PLAY" get configmaps --field-selector metadata.name=first-greeting
    ok "deletion ran the finalizer, and the ConfigMap was collected"
}

check_failover() {
    step "one of two replicas holds the Lease, and a killed one is replaced"
    local was
    was=$(holder)
    kubectl -n "$NAMESPACE" get pod "${was%_*}" -o name >/dev/null
    [[ $(kubectl -n "$NAMESPACE" get deployment "$NAME" -o "jsonpath={.status.readyReplicas}") == 2 ]] ||
        fail "there are not two ready replicas"
    kill_pod "${was%_*}"
    local killed=$SECONDS
    eventually "$TAKEOVER_SECONDS" leads_another "$was"
    ok "another leads after $((SECONDS - killed)) s"
    greeting after "a failover" >"$WORK/after.yaml"
    eventually 15 kubectl apply -f "$WORK/after.yaml"
    eventually 30 says after "a failover"
    ok "it does the work"
    kubectl -n "$NAMESPACE" rollout status "deployment/$NAME" --timeout=60s >/dev/null
}

check_renewal() {
    step "the certificate is renewed"
    kubectl -n "$NAMESPACE" delete secret "$SECRET" >/dev/null
    eventually 10 certificate
    ok "a deleted Secret came back"
    # What is served is valid for a year: without the Secret, and nobody to put it back, it is new.
    install "$RENEWING" "$WORK/renewing/$NAME"
    kubectl -n "$NAMESPACE" scale "deployment/$NAME" --replicas=0 >/dev/null
    eventually 120 is_gone -n "$NAMESPACE" get pods
    sleep 8 # their processes may outlive them for the drain
    kubectl -n "$NAMESPACE" delete secret "$SECRET" >/dev/null
    kubectl -n "$NAMESPACE" scale "deployment/$NAME" --replicas=2 >/dev/null
    kubectl -n "$NAMESPACE" rollout status "deployment/$NAME" --timeout=120s >/dev/null
    greeting again "once more" >"$WORK/again.yaml"
    eventually 60 kubectl apply -f "$WORK/again.yaml"
    local was
    was=$(certificate)
    start_calls
    eventually $((LIFE_SECONDS + 30)) has_other_certificate "$was"
    sleep 10 # and the former is trusted no longer
    end_calls "through a renewal"
}

check_uninstall() {
    step "uninstall takes all of it away"
    (cd "$WORK/current/$NAME" && "$(python_of .)" -m app uninstall --yes --delete-namespace) \
        >"$WORK/uninstall" 2>&1 || fail "uninstall: $(tail -n 5 "$WORK/uninstall")"
    local kind
    for kind in crd/greetings.example.com "clusterrole/$NAME" "clusterrolebinding/$NAME" \
        "validatingwebhookconfiguration/$NAME" "mutatingwebhookconfiguration/$NAME"; do
        is_gone get "$kind" || fail "$kind is left"
    done
    eventually 90 is_gone get namespace "$NAMESPACE"
    ok "nothing is left"
}

previous_release() {
    local tag
    tag=$(git tag --list 'v*' --sort=-version:refname --no-contains HEAD 2>/dev/null | head -n 1)
    if [[ -z $tag ]]; then
        say "there is no earlier release: the upgrade is from another image of this one"
        cp -r "$WORK/renewing" "$WORK/previous"
        return
    fi
    say "the previous release is $tag"
    git worktree add --quiet --detach "$WORK/checkout" "$tag"
    (
        cd "$WORK/checkout"
        make setup >/dev/null
        .venv/bin/rws-operator new "$NAME" --no-input --group example.com --kind Greeting \
            --runtime "$PWD" --output-dir "$WORK/previous" >/dev/null
    )
    mkdir -p "$WORK/previous/$NAME/.venv/bin"
    ln -s "$WORK/checkout/.venv/bin/python" "$WORK/previous/$NAME/.venv/bin/python"
}

trap finish EXIT
trap 'exit 130' INT TERM
step "projects from the starter"
mkdir -p "$WORK"/{current,renewing,previous}
project "$WORK/current" "$ROOT"
project "$WORK/renewing" "$ROOT"
printf 'operator.certificate(lifetime_seconds=%s, stage_seconds=2)\n' "$LIFE_SECONDS" \
    >>"$WORK/renewing/$NAME/app/__init__.py"
rmdir "$WORK/previous" && previous_release
if [[ $MODE == local ]]; then
    step "an embedded control plane"
    start_local
else
    check_throwaway
    check_images
fi
check_upgrade
check_admission
check_reconcile
check_failover
check_renewal
check_uninstall
say "passed: all checks in $SECONDS s"
