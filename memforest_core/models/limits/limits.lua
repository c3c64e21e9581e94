-- Limits on the calls to one model, shared by all workers: token buckets, a factor that 429s lower, and a circuit.
--
-- KEYS[1] is a hash with the state, KEYS[2] a sorted set of permits by the time at which they end, KEYS[3] a hash of the
-- inputs that failed last. ARGV[1] is what to do ("admit", "settle" or "pause"), ARGV[2] the time in seconds (for tests;
-- empty: the server's clock), ARGV[3] to ARGV[8]
-- are the limits (empty: none), and the rest are the arguments of that function. Numbers are written with 17 digits, so
-- that nothing is lost between two calls.

-- Share of a minute's limit that may go out at once (3 s of it); the steady rate is lower by as much, so that no 60
-- seconds ever see more than the limit.
local BURST = 1 / 20
-- A 429 multiplies the factor by CUT, down to LOWEST_FACTOR; without one it recovers by a tenth in 10 seconds.
local CUT, LOWEST_FACTOR, RECOVERY_PER_S = 0.5, 1 / 16, 0.01
-- The pauses after 429s that do not say how long to wait.
local FIRST_PAUSE_S, LONGEST_PAUSE_S = 1, 60
-- A 429 with fewer calls under way than this does not tell how many are too many, so no lower number is learned.
local LEAST_MEASURED = 4
-- What begins the name of a permit that timeouts of other calls do not delay. The part of its time that an answer took which
-- speaks for more calls at once, or for fewer. Slots from which on timeouts are forgotten.
local URGENT, QUICK, LATE, MOST_SLOTS = '!', 1 / 4, 1 / 2, 64
-- While a trial is under way, the others ask for the pause after this long.
local TRIAL_PAUSE_S = 1
-- Keys that nobody touched for this long are deleted; longer than any pause that a provider may ask for (an hour).
local KEPT_S = 7200
-- Failed inputs that are stored; in an outage with more of them the rest is not distinguished.
local MOST_INPUTS = 500
-- While one caller checks whether the model answers at all, the others leave it to that one for so long.
local CHECK_S = 10
-- The input of such a check, and what the names of inputs begin with that are not tried again as they are.
local CHECK, BATCH = 'check', '*'

local state_key, permits_key, inputs_key = KEYS[1], KEYS[2], KEYS[3]
local now = tonumber(ARGV[2])
if now == nil then
  local time = redis.call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1e6
end
local rpm, tpm, most = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local circuit_failures, open_s, longest_s = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])

local function exact(x) return string.format('%.17g', x) end

-- requests, tokens: what may go out at once (nil: a full bucket; tokens may be below zero after a large call).
-- factor: the share of the limits in use as of the last 429, at cut_at; cuts: 429s in a row; measured: the calls that
-- were under way at the first of them. failures: inputs that failed in a row while the circuit is closed; openings: how
-- often in a row it opened (0: it is closed). trial: the permit that tries if the model is back, until trial_until;
-- requested_until: somebody was sent to try, and has this long to begin. answered_at: the last answer, to the input
-- answered_by; other_at: the last one to any other input. checked_until: somebody checks whether the model answers.
-- slots: calls at once that timeouts left, the last of them at slowed_at (0: as many as allowed).
local NUMBERS = {'requests', 'tokens', 'filled_at', 'factor', 'cut_at', 'cuts', 'measured', 'paused_until', 'failures',
  'openings', 'opened_at', 'open_until', 'trial_until', 'requested_until', 'answered_at', 'other_at', 'checked_until',
  'slots', 'slowed_at'}
local TEXTS = {'reason', 'trial', 'answered_by'}
local NEW = {filled_at = 0, factor = 1, cut_at = -1, cuts = 0, measured = 0, paused_until = 0, failures = 0,
  openings = 0, opened_at = 0, open_until = 0, trial_until = 0, requested_until = 0, answered_at = -1, other_at = -1,
  checked_until = 0, slots = 0, slowed_at = -1}

local function load()
  local state, kept = {}, redis.call('HMGET', state_key, unpack(NUMBERS))
  for i, name in ipairs(NUMBERS) do state[name] = tonumber(kept[i] or '') or NEW[name] end
  kept = redis.call('HMGET', state_key, unpack(TEXTS))
  for i, name in ipairs(TEXTS) do state[name] = kept[i] or '' end
  return state
end

local function save(state)
  local fields = {}
  for _, name in ipairs(NUMBERS) do
    if state[name] ~= nil then
      fields[#fields + 1] = name
      fields[#fields + 1] = exact(state[name])
    end
  end
  for _, name in ipairs(TEXTS) do
    fields[#fields + 1] = name
    fields[#fields + 1] = state[name]
  end
  redis.call('HSET', state_key, unpack(fields))
  if rpm == nil then redis.call('HDEL', state_key, 'requests') end
  if tpm == nil then redis.call('HDEL', state_key, 'tokens') end
  redis.call('EXPIRE', state_key, math.max(KEPT_S, math.ceil(state.open_until - now) + KEPT_S))
end

local function under_way()
  redis.call('ZREMRANGEBYSCORE', permits_key, '-inf', exact(now))
  return redis.call('ZCARD', permits_key)
end

-- It recovers from the last 429, or from the end of the pause that it set.
local function factor_now(state)
  local since = math.max(state.cut_at, state.paused_until)
  return math.min(1, state.factor + RECOVERY_PER_S * math.max(0, now - since))
end

-- How many calls may be under way at once. Without a rate to lower, 429s lower the number that was measured.
local function ceiling(state)
  local highest = most or math.huge
  local factor = factor_now(state)
  if rpm ~= nil or factor >= 1 then return highest end
  return math.min(highest, math.max(LEAST_MEASURED, math.floor(state.measured * factor)))
end

local function capacity(per_minute, factor, least) return least + per_minute * BURST * factor end
local function rate(per_minute, factor) return per_minute * (1 - BURST) * factor / 60 end

local function level(before, per_minute, factor, elapsed, least)
  if per_minute == nil then return nil end
  local full = capacity(per_minute, factor, least)
  if before == nil then return full end
  return math.min(full, before + elapsed * rate(per_minute, factor))
end

-- A clock that was set back fills nothing.
local function refill(state)
  local elapsed, factor = math.max(0, now - state.filled_at), factor_now(state)
  state.requests = level(state.requests, rpm, factor, elapsed, 1)
  state.tokens = level(state.tokens, tpm, factor, elapsed, 0)
  state.filled_at = now
end

-- Admitting: whether one more call may start, when that may change (seconds, 0: not known), why the circuit is open,
-- and the time. A request is there or not; the call that takes the last tokens may overdraw them, so that a large call
-- does not starve behind small ones. hold_s bounds how long the call may be the trial of a half-open circuit.
local function decide(state)
  if now < state.paused_until then return 'paused', state.paused_until - now end
  if state.openings > 0 and now < state.open_until then return 'open', state.open_until - now end
  if state.openings > 0 and now < state.trial_until then
    return 'open', math.min(TRIAL_PAUSE_S, state.trial_until - now)
  end
  local calls, urgent = under_way(), string.sub(ARGV[9], 1, 1) == URGENT
  if calls >= ceiling(state) then return 'busy', 0 end
  if state.slots > 0 and not urgent and calls >= math.floor(state.slots) then return 'busy', 0 end
  local factor, wait = factor_now(state), 0
  if rpm ~= nil and state.requests < 1 then wait = (1 - state.requests) / rate(rpm, factor) end
  if tpm ~= nil and state.tokens <= 0 then wait = math.max(wait, (0.001 - state.tokens) / rate(tpm, factor)) end
  if wait > 0 then return 'spent', wait end
  return 'granted', 0
end

local function admit()
  local permit, tokens, hold_s = ARGV[9], tonumber(ARGV[10]), tonumber(ARGV[11])
  local state = load()
  refill(state)
  local verdict, wait = decide(state)
  if verdict == 'granted' then
    if rpm ~= nil then state.requests = state.requests - 1 end
    if tpm ~= nil then state.tokens = state.tokens - tokens end
    if state.openings > 0 then
      state.trial = permit
      state.trial_until = now + hold_s
    end
    redis.call('ZADD', permits_key, exact(now + hold_s), permit)
    redis.call('EXPIRE', permits_key, KEPT_S + math.ceil(hold_s))
  end
  save(state)
  return {verdict, exact(wait), verdict == 'open' and state.reason or '', exact(now)}
end

-- Settling: the state after a call ended. A call without a permit began just now and reserved nothing.
local permit, started, outcome, reserved, used, retry_after, input, checks

local function pay(state)
  local factor, back = factor_now(state), 0
  if used ~= nil then back = reserved - used end
  if outcome == 'unmade' then
    back = reserved
    if rpm ~= nil and reserved > 0 then state.requests = math.min(capacity(rpm, factor, 1), state.requests + 1) end
  end
  if tpm ~= nil then state.tokens = math.min(capacity(tpm, factor, 0), state.tokens + back) end
end

local function is_trial(state) return state.trial ~= '' and state.trial == permit end

local function reached(state)
  if state.openings > 0 and started < state.opened_at then return end
  state.failures, state.openings, state.open_until, state.reason = 0, 0, 0, ''
  state.trial, state.trial_until, state.requested_until = '', 0, 0
end

local function limited(state, calls)
  local pause = retry_after
  if started > state.cut_at then
    local before = factor_now(state)
    if before >= 1 then state.measured = math.max(calls, LEAST_MEASURED) end
    state.factor = math.max(LOWEST_FACTOR, before * CUT)
    state.cut_at = now
    state.cuts = state.cuts + 1
    if pause == nil then pause = math.min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ^ math.min(state.cuts - 1, 16)) end
  end
  if pause ~= nil then state.paused_until = math.max(state.paused_until, now + pause) end
end

-- A timeout leaves half of the slots, and one when no call was answered meanwhile. Of calls that were under way together
-- only the first counts.
local function slowed(state, calls)
  if started <= state.slowed_at then return end
  local before = state.slots > 0 and math.min(state.slots, calls) or calls
  state.slots = state.answered_at < started and 1 or math.max(1, math.floor(before / 2))
  state.slowed_at = now
end

local function answered(state)
  local ends = tonumber(redis.call('ZSCORE', permits_key, permit) or '')
  if state.slots > 0 and ends ~= nil then
    local part = (now - started) / (ends - started)
    local change = (part <= QUICK and 1 or part > LATE and -1 or 0) / math.floor(state.slots)
    state.slots = state.slots < MOST_SLOTS and math.max(1, state.slots + change) or 0
  end
  reached(state)
  if started > state.cut_at then state.cuts = 0 end
  if input ~= state.answered_by then state.other_at = state.answered_at end
  state.answered_at, state.answered_by = now, input
  if input ~= '' then redis.call('HDEL', inputs_key, input) end
end

-- What a failure says about its input. known: it failed before; alone: the model answered others since then, or during
-- the call; suspect: that was so once; new: the first failure since the last answer. An unnamed input is always new.
local function failure(state)
  if input == '' or input == CHECK then return {new = true} end
  local stored = redis.call('HGET', inputs_key, input) or ''
  local before, suspect = string.match(stored, '^(%S+) (%d)$')
  before = tonumber(before)
  local other_at = state.answered_by == input and state.other_at or state.answered_at
  local alone = other_at > (before or math.min(started, now))
  suspect = alone or suspect == '1'
  if before ~= nil or redis.call('HLEN', inputs_key) < MOST_INPUTS then
    redis.call('HSET', inputs_key, input, exact(now) .. (suspect and ' 1' or ' 0'))
    redis.call('EXPIRE', inputs_key, KEPT_S)
  end
  local known = before ~= nil or string.sub(input, 1, 1) == BATCH
  return {known = known, alone = alone, suspect = suspect, new = before == nil or before < state.answered_at}
end

-- Whether the caller is to check if the model answers at all: one does it at a time.
local function doubt(state, fault)
  if not checks or fault.alone or now < state.checked_until then return false end
  if state.openings > 0 and now < state.open_until then return false end
  if state.openings == 0 and not fault.known and state.failures < circuit_failures then return false end
  state.checked_until = now + CHECK_S
  return true
end

-- The circuit opens for inputs that fail in a row; one that fails while others are answered is no sign of an outage.
-- Who can check opens it by a check that fails, and that at once.
local function failed(state, reason, fault)
  local trial = is_trial(state)
  if trial then state.trial, state.trial_until, state.requested_until = '', 0, 0 end
  if fault.suspect or state.openings > 0 and not trial then return end
  local failures = state.failures + (fault.new and 1 or 0)
  if input == CHECK then failures = math.max(failures, circuit_failures) end
  if reason == 'outage' and state.openings == 0 then
    state.failures = failures
    if failures < circuit_failures then return end
  end
  if reason == 'outage' and checks then return end
  local span = math.min(longest_s, open_s * 2 ^ math.min(state.openings, 16))
  state.failures, state.openings, state.opened_at = 0, state.openings + 1, now
  state.open_until, state.reason = now + math.max(span, retry_after or 0), reason
end

local function settle()
  permit, started, outcome, reserved = ARGV[9], tonumber(ARGV[10]) or math.huge, ARGV[11], tonumber(ARGV[12])
  used, retry_after, input, checks = tonumber(ARGV[13]), tonumber(ARGV[14]), ARGV[15], ARGV[16] == '1'
  local state, calls, fault = load(), under_way(), {}
  refill(state)
  pay(state)
  if input == CHECK then state.checked_until = 0 end
  if outcome == 'unmade' then
    if is_trial(state) then state.trial, state.trial_until = '', 0 end
  elseif outcome == 'answered' then
    answered(state)
  elseif outcome == 'rate_limited' then
    reached(state)
    limited(state, calls)
  else
    fault = failure(state)
    if outcome == 'timed_out' then slowed(state, calls) end
    if outcome == 'rejected' then reached(state) else failed(state, outcome == 'auth' and 'auth' or 'outage', fault) end
  end
  local check = (outcome == 'unavailable' or outcome == 'rejected') and doubt(state, fault)
  if permit ~= '' then redis.call('ZREM', permits_key, permit) end
  save(state)
  return {fault.alone and 1 or 0, check and 1 or 0}
end

-- Looking: how long the model is paused. When a trial is due, the one who asks is sent to make it and the others wait.
local function pause()
  local state = load()
  local pause = state.paused_until - now
  if state.openings > 0 then
    local asked = math.min(TRIAL_PAUSE_S, math.max(state.trial_until, state.requested_until) - now)
    pause = math.max(pause, state.open_until - now, asked)
  end
  if pause > 0 then return {exact(pause), 0} end
  if state.openings == 0 then return {'0', 0} end
  state.requested_until = now + TRIAL_PAUSE_S
  save(state)
  return {'0', 1}
end

if ARGV[1] == 'admit' then return admit() end
if ARGV[1] == 'settle' then return settle() end
return pause()
